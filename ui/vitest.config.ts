import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.spec.ts", "browser/**/*.spec.ts"],
    environment: "node",
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // One browser and one sidecar at a time: the machine has two cores.
    fileParallelism: false,
  },
});
