// What somebody dropped on a page: files, and folders with all that is in them.

export interface Dropped {
  file: File;
  /** The path as the reader knows it, beginning with the name of the folder. */
  path: string;
}

/** All files of a drop, by their paths. What cannot be read, such as a file that went away meanwhile, is not among them. */
export async function filesOf(transfer: DataTransfer): Promise<Dropped[]> {
  // Entries must be taken at once: after the event they are gone.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found: Dropped[] = [];
  for (const entry of entries) await gather(entry, "", found);
  return found.sort((one, other) => (one.path < other.path ? -1 : 1));
}

async function gather(entry: FileSystemEntry, folder: string, found: Dropped[]): Promise<void> {
  const path = `${folder}${entry.name}`;
  if (entry.isFile) {
    const file = await new Promise<File | null>((resolve) => (entry as FileSystemFileEntry).file(resolve, () => resolve(null)));
    if (file) found.push({ file, path });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // A reader gives a hundred entries at a time, and none when there are no more.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (!some.length) return;
    for (const each of some) await gather(each, `${path}/`, found);
  }
}
