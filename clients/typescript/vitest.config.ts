import { defineConfig } from "vitest/config";

export default defineConfig({
  // src/gen is a link to the generated code, which finds its runtime from here.
  resolve: { preserveSymlinks: true },
  test: {
    include: ["src/**/*.spec.ts"],
    testTimeout: 180_000,
    hookTimeout: 180_000,
    maxWorkers: 2,
  },
});
