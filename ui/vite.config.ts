import { fileURLToPath } from "node:url";

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// `npm run dev` serves the sources with hot replacement; the API is that of `si-cli serve` beside it.
const SERVER = process.env["SI_SERVER"] ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [svelte()],
  // All addresses are relative, so that the pages work below whatever path a proxy shows the server at.
  base: "./",
  build: {
    outDir: fileURLToPath(new URL("../src/soliplex/ingester/server/ui/dist", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    // Small files would become `data:` addresses, which the policy of the pages does not let scripts be.
    assetsInlineLimit: 0,
    // Which file needs which: the benchmark of the first load reads it.
    manifest: "manifest.json",
    // The licences of what is built in must come along with it.
    license: { fileName: "licenses.md" },
    modulePreload: { polyfill: false },
    // Set-up shows what goes wrong, and not how long each part took.
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  server: {
    proxy: { "/api": SERVER },
  },
});
