// Where on its pages the parts of a document stand, by the structure that the parser gave.

interface Box {
  l: number;
  t: number;
  r: number;
  b: number;
  coord_origin?: string;
}

interface Item {
  label: string;
  text?: string;
  prov?: { page_no: number; bbox: Box }[];
}

/** A document as docling writes it, as far as it is read here. */
export interface ReadDocument {
  pages?: Record<string, { page_no: number; size: { width: number; height: number } }>;
  texts?: Item[];
  tables?: Item[];
  pictures?: Item[];
}

/** A part of a page, in the page's own measure, from its upper left. */
export interface Region {
  label: string;
  text: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface PageOfDocument {
  number: number;
  width: number;
  height: number;
  regions: Region[];
}

/** The pages in their order, each with its regions from top to bottom. */
export function pagesOf(document: ReadDocument): PageOfDocument[] {
  const pages = new Map<number, PageOfDocument>();
  for (const { page_no: number, size } of Object.values(document.pages ?? {})) {
    pages.set(number, { number, width: size.width, height: size.height, regions: [] });
  }
  for (const item of [...(document.texts ?? []), ...(document.tables ?? []), ...(document.pictures ?? [])]) {
    for (const { page_no: number, bbox } of item.prov ?? []) {
      const page = pages.get(number);
      page?.regions.push({ label: item.label.replaceAll("_", " "), text: item.text ?? "", ...placed(bbox, page.height) });
    }
  }
  for (const page of pages.values()) page.regions.sort((one, other) => one.y - other.y || one.x - other.x);
  return [...pages.values()].sort((one, other) => one.number - other.number);
}

// PDFs count from the lower left.
function placed({ l, t, r, b, coord_origin: origin }: Box, height: number): Pick<Region, "x" | "y" | "width" | "height"> {
  const [top, bottom] = origin === "BOTTOMLEFT" ? [height - t, height - b] : [t, b];
  return { x: Math.min(l, r), y: Math.min(top, bottom), width: Math.abs(r - l), height: Math.abs(bottom - top) };
}
