// Writes a TypeScript program that compiles if deploy/grafana.json has Grafana's types for
// dashboards, for panel options and for their custom fields: node dashboard.mjs DASHBOARD PROGRAM.
import { readFileSync, writeFileSync } from "node:fs";

const [dashboard, program] = process.argv.slice(2);
const found = JSON.parse(readFileSync(dashboard, "utf8"));
// Grafana writes a query variable's definition, which its types do not have.
for (const variable of found.templating.list) delete variable.definition;

const panels = "./node_modules/@grafana/schema/dist/types/raw/composable";
const lines = [
  'import type { Dashboard, FieldConfigSource } from "@grafana/schema";',
  "// JSON has the text of an enum's member, and may omit options that have a default.",
  "type Text<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Text<T[K]> } : T;",
  "type Some<T> = T extends any[] ? T : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;",
  `export const dashboard: Text<Dashboard> = ${JSON.stringify(found, null, 1)};`,
];
for (const type of new Set(found.panels.map((p) => p.type).filter((type) => type !== "row"))) lines.push(`import type * as ${type} from "${panels}/${type}/panelcfg/x/types.gen";`);
for (const { id, type, options, fieldConfig } of found.panels) {
  if (type === "row") continue;
  lines.push(`export const options${id}: Some<Text<${type}.Options>> = ${JSON.stringify(options)};`);
  if (fieldConfig.defaults.custom) lines.push(`export const fields${id}: Some<Text<FieldConfigSource<${type}.FieldConfig>>> = ${JSON.stringify(fieldConfig)};`);
}
writeFileSync(program, lines.join("\n") + "\n");
