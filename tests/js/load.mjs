// Views as dpnb/display/elements.py gives them to a notebook: with what they import.
import { readFileSync } from "node:fs";

export const from = (name) => new URL(`../../dpnb/display/static/${name}`, import.meta.url);

function address(name) {
  const source = readFileSync(from(name), "utf-8");
  const whole = source.replace(/(?<= from )"\.\/(\w+\.js)"/g, (_, used) => `"${address(used)}"`);
  return `data:text/javascript;base64,${Buffer.from(whole).toString("base64")}`;
}

export const load = (name) => import(address(name));
