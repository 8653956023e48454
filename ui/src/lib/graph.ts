// Where the nodes of a graph are drawn: in layers from left to right, each node after all that it waits for. Pure.

export interface GraphNode {
  id: string;
}

export interface GraphEdge {
  source: string;
  target: string;
}

export interface Placed {
  id: string;
  x: number;
  y: number;
}

export interface DrawnEdge extends GraphEdge {
  path: string;
}

export interface Drawing {
  nodes: Placed[];
  edges: DrawnEdge[];
  width: number;
  height: number;
}

export interface Sizes {
  node: { width: number; height: number };
  between: { layers: number; rows: number };
}

export const SIZES: Sizes = { node: { width: 176, height: 66 }, between: { layers: 44, rows: 18 } };
const SWEEPS = 6;

/** A node, or a place that an edge passes on its way over a layer. */
interface Spot {
  id: string;
  layer: number;
  isNode: boolean;
}

/** Edges that name unknown nodes are left out, and so are those that would close a circle. */
export function draw(nodes: readonly GraphNode[], edges: readonly GraphEdge[], sizes: Sizes = SIZES): Drawing {
  const known = new Set(nodes.map((node) => node.id));
  const usable = edges.filter((edge) => known.has(edge.source) && known.has(edge.target) && edge.source !== edge.target);
  const layers = layersOf(nodes, usable);
  const forward = usable.filter((edge) => layers.get(edge.source)! < layers.get(edge.target)!);
  const { spots, chains } = withPassages(nodes, forward, layers);
  const rows = ordered(spots, chains);
  return placed(nodes, forward, rows, chains, sizes);
}

/** The longest way from a node without predecessors. */
function layersOf(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): Map<string, number> {
  const before = new Map<string, string[]>(nodes.map((node) => [node.id, []]));
  for (const { source, target } of edges) before.get(target)!.push(source);
  const layers = new Map<string, number>();
  const open = new Set<string>();
  const layerOf = (id: string): number => {
    const found = layers.get(id);
    if (found !== undefined) return found;
    if (open.has(id)) return -1; // a circle: this edge does not count
    open.add(id);
    const layer = Math.max(-1, ...before.get(id)!.map(layerOf)) + 1;
    open.delete(id);
    layers.set(id, layer);
    return layer;
  };
  nodes.forEach((node) => layerOf(node.id));
  return layers;
}

function withPassages(nodes: readonly GraphNode[], edges: readonly GraphEdge[], layers: Map<string, number>) {
  const spots: Spot[] = nodes.map(({ id }) => ({ id, layer: layers.get(id)!, isNode: true }));
  const chains = edges.map(({ source, target }, number) => {
    const chain = [source];
    for (let layer = layers.get(source)! + 1; layer < layers.get(target)!; layer += 1) {
      const id = `${number}:${layer}`;
      spots.push({ id, layer, isNode: false });
      chain.push(id);
    }
    return [...chain, target];
  });
  return { spots, chains };
}

/** The spots of each layer in an order in which few edges cross: each near the middle of its neighbours. */
function ordered(spots: readonly Spot[], chains: readonly string[][]): Spot[][] {
  const last = Math.max(0, ...spots.map((spot) => spot.layer));
  const rows = Array.from({ length: last + 1 }, (_, layer) => spots.filter((spot) => spot.layer === layer));
  const before = new Map<string, string[]>();
  const after = new Map<string, string[]>();
  for (const chain of chains) {
    chain.slice(1).forEach((id, at) => {
      (before.get(id) ?? before.set(id, []).get(id)!).push(chain[at]!);
      (after.get(chain[at]!) ?? after.set(chain[at]!, []).get(chain[at]!)!).push(id);
    });
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    const neighbours = forward ? before : after;
    for (const row of forward ? rows : [...rows].reverse()) sortByNeighbours(row, rows, neighbours);
  }
  return rows;
}

function sortByNeighbours(row: Spot[], rows: readonly Spot[][], neighbours: Map<string, string[]>): void {
  const place = new Map<string, number>();
  for (const each of rows) each.forEach((spot, at) => place.set(spot.id, (at + 0.5) / each.length));
  const middle = (spot: Spot): number => {
    const found = neighbours.get(spot.id);
    return found ? found.reduce((sum, id) => sum + place.get(id)!, 0) / found.length : place.get(spot.id)!;
  };
  const middles = new Map(row.map((spot) => [spot.id, middle(spot)]));
  row.sort((one, other) => middles.get(one.id)! - middles.get(other.id)!);
}

function placed(
  nodes: readonly GraphNode[],
  edges: readonly GraphEdge[],
  rows: readonly Spot[][],
  chains: readonly string[][],
  { node, between }: Sizes,
): Drawing {
  const rowHeight = node.height + between.rows;
  const most = Math.max(1, ...rows.map((row) => row.length));
  const height = most * rowHeight - between.rows;
  const spots = new Map<string, Placed>();
  rows.forEach((row, layer) => {
    const top = (height - (row.length * rowHeight - between.rows)) / 2;
    row.forEach(({ id }, at) => spots.set(id, { id, x: layer * (node.width + between.layers), y: top + at * rowHeight }));
  });
  const drawn = edges.map((edge, number) => ({
    ...edge,
    path: curve(chains[number]!.map((id) => spots.get(id)!), { width: node.width, height: node.height }),
  }));
  const width = rows.length * (node.width + between.layers) - between.layers;
  return { nodes: nodes.map(({ id }) => spots.get(id)!), edges: drawn, width, height };
}

/** From the right side of the first spot to the left side of the last, through the middle of those between. */
function curve(spots: readonly Placed[], node: { width: number; height: number }): string {
  const middle = (spot: Placed) => spot.y + node.height / 2;
  let path = `M${spots[0]!.x + node.width},${middle(spots[0]!)}`;
  spots.slice(1).forEach((spot, at) => {
    const from = spots[at]!;
    const bend = (spot.x - (from.x + node.width)) / 2;
    path += `C${from.x + node.width + bend},${middle(from)} ${spot.x - bend},${middle(spot)} ${spot.x},${middle(spot)}`;
    if (at < spots.length - 2) path += `H${spot.x + node.width}`;
  });
  return path;
}
