// Reads the gateway's OpenAPI document with programs of other people: a validator of
// OpenAPI 3.1, and openapi-typescript, whose types a small program is compiled with.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Validator } from "@seriousme/openapi-schema-validator";
import openapiTS, { astToString } from "openapi-typescript";

const here = dirname(fileURLToPath(import.meta.url));
const path = join(here, "../../gen/openapi/pawl.openapi.json");
const document = JSON.parse(readFileSync(path, "utf8"));

const result = await new Validator().validate(structuredClone(document));
if (!result.valid) throw new Error(JSON.stringify(result.errors, null, 2));

const work = mkdtempSync(join(tmpdir(), "pawl-openapi-"));
try {
  writeFileSync(join(work, "pawl.ts"), astToString(await openapiTS(document)));
  writeFileSync(join(work, "program.ts"), readFileSync(join(here, "program.ts")));
  const tsc = join(here, "node_modules/typescript/bin/tsc");
  const options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"];
  execFileSync(process.execPath, [tsc, ...options, join(work, "program.ts")], { stdio: "inherit" });
} finally {
  rmSync(work, { recursive: true });
}
const operations = Object.values(document.paths).flatMap((item) => Object.values(item)).length;
console.log(`ok\tOpenAPI ${document.openapi}: valid, ${operations} operations, types compile`);
