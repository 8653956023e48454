// Numbers, times and sizes as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit" });
const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const EXACT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const NOTHING = "–";

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NOTHING : WHOLE.format(value);
}

/** `12.3K` from a hundred thousand on, where the digits would not be read. */
export function shortCount(value: number): string {
  return Math.abs(value) < 100_000 ? WHOLE.format(value) : COMPACT.format(value);
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function rate(perMinute: number): string {
  return perMinute >= 100 ? WHOLE.format(perMinute) : perMinute >= 1 ? perMinute.toFixed(1) : perMinute === 0 ? "0" : perMinute.toFixed(2);
}

export function percent(part: number, whole: number): string {
  if (whole <= 0) return "0 %";
  const share = (100 * part) / whole;
  return `${share > 0 && share < 1 ? "<1" : share > 99 && share < 100 ? ">99" : Math.round(share)} %`;
}

/** `12 ms`, `3.4 s`, `2 min 5 s`, `3 h 20 min`, `4 d 2 h`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NOTHING;
  if (seconds < 0.001) return seconds <= 0 ? "0 s" : "<1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return twoUnits(whole, 60, "min", "s");
  if (whole < 86_400) return twoUnits(Math.round(whole / 60), 60, "h", "min");
  return twoUnits(Math.round(whole / 3_600), 24, "d", "h");
}

function twoUnits(value: number, base: number, large: string, small: string): string {
  const rest = value % base;
  return `${Math.floor(value / base)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return NOTHING;
  if (size < 1024) return `${size} B`;
  let value = size;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    value /= 1024;
    if (value < 1024 || unit === "TiB") return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
  }
  return NOTHING;
}

export function date(moment: string | null | undefined): string {
  return moment ? DATE.format(new Date(moment)) : NOTHING;
}

export function fullDate(moment: string | null | undefined): string {
  return moment ? FULL.format(new Date(moment)) : NOTHING;
}

export function dateAndTime(moment: string): string {
  return EXACT.format(new Date(moment));
}

export function clock(moment: string | number | Date): string {
  return CLOCK.format(new Date(moment));
}

const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });

/** A moment on an axis that is so many seconds long: no more exact than the axis is. */
export function onAxis(moment: string, seconds: number): string {
  if (seconds > 2 * 86_400) return DAY.format(new Date(moment));
  return seconds > 300 ? clock(moment).slice(0, 5) : clock(moment);
}

/** `just now`, `5 min ago`, `in 2 h`; from a week on, the date. */
export function relative(moment: string, now: number): string {
  const seconds = (now - new Date(moment).getTime()) / 1000;
  const away = Math.abs(seconds);
  if (away < 5) return "just now";
  if (away > 7 * 86_400) return date(moment);
  const words = coarse(away);
  return seconds > 0 ? `${words} ago` : `in ${words}`;
}

function coarse(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3_600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3_600) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** A duration that is guessed: no more exact than whole seconds. */
export function about(seconds: number): string {
  return `≈ ${duration(Math.max(1, Math.ceil(seconds)))}`;
}

/** Seconds between two moments; from one until now where the second is missing. */
export function secondsBetween(from: string | null, until: string | null, now: number): number | null {
  if (!from) return null;
  return Math.max(0, ((until ? new Date(until).getTime() : now) - new Date(from).getTime()) / 1000);
}

/** What a document is, as people call it: by the end of its name, else by its media type. */
export function kindOf(uri: string, mimeType: string): string {
  const ending = /\.([a-z0-9]{1,8})$/i.exec(nameOf(uri))?.[1];
  return ending?.toLowerCase() ?? mimeType.replace(/^.*[/.]/, "");
}

/** The last two folders before the name: what tells one `index.md` from the others. */
export function folderOf(uri: string): string {
  return uri.replace(/\/+$/, "").split("/").slice(0, -1).filter(Boolean).slice(-2).join("/");
}

/** The last part of a path or address, by which people know a document. */
export function nameOf(uri: string): string {
  return uri.replace(/\/+$/, "").split("/").pop() || uri;
}
