import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The output is committed: the same sources give the same bytes on every machine.
export default defineConfig({
  base: "/ui/",
  plugins: [react()],
  build: {
    outDir: process.env.OUT ?? "../internal/ui/dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 800,
  },
});
