import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The output is committed: the same sources give the same bytes on every machine.
export default defineConfig({
  base: "/ui/",
  plugins: [react()],
  // `vite` serves the sources as they are typed; the API is that of a sidecar that was
  // started with --http-origin http://127.0.0.1:5173.
  server: {
    host: "127.0.0.1",
    proxy: { "/v1": process.env.PAWL_URL ?? "http://127.0.0.1:7290" },
  },
  build: {
    outDir: process.env.OUT ?? "../internal/ui/dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 800,
  },
});
