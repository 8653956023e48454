// The arithmetic of plots: pure, so that it can be tried without a page.

export interface Series {
  name: string;
  values: number[];
}

/** Round numbers from 0 to at least the largest value: 1, 2 or 5 times a power of ten apart. */
export function ticks(largest: number, about = 4): number[] {
  if (largest <= 0) return [0, 1];
  const rough = largest / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((times) => times * power >= rough) ?? 10);
  const found = [];
  for (let tick = 0; tick < largest + step; tick += step) found.push(Number(tick.toPrecision(6)));
  return found;
}

/** Each series on top of those before it: the lower and the upper edge at every place. */
export function stacked(series: readonly Series[]): { name: string; lower: number[]; upper: number[] }[] {
  const height = new Array<number>(series[0]?.values.length ?? 0).fill(0);
  return series.map(({ name, values }) => {
    const lower = [...height];
    values.forEach((value, at) => (height[at] = (height[at] ?? 0) + value));
    return { name, lower, upper: [...height] };
  });
}

export function largestSum(series: readonly Series[]): number {
  return Math.max(0, ...(stacked(series).at(-1)?.upper ?? []));
}

/** The outline of bars between two edges, in a box of `width` by `height`, where `top` is the value at its top. */
export function bars(lower: number[], upper: number[], width: number, height: number, top: number): string {
  const each = width / Math.max(1, upper.length);
  const gap = each > 4 ? 1 : 0;
  const y = (value: number) => (height - (value / top) * height).toFixed(1);
  return upper
    .map((value, at) => {
      const below = lower[at] ?? 0;
      if (value <= below) return "";
      const left = (at * each + gap / 2).toFixed(1);
      const right = ((at + 1) * each - gap / 2).toFixed(1);
      return `M${left},${y(below)}V${y(value)}H${right}V${y(below)}Z`;
    })
    .join("");
}
