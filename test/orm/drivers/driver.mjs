// Runs a recipe: driver.mjs FILE. Each line of the input is "insert N" or "bulk N".
import { dirname } from "node:path";
import { createInterface } from "node:readline";

const { create, createMany } = await import(process.argv[2]);
const { idsAsText } = await import(dirname(process.argv[2]) + "/ids.mjs");
for await (const line of createInterface({ input: process.stdin })) {
  const [what, n] = line.split(" ");
  let last = "";
  try {
    if (what === "bulk") await createMany(Array(Number(n)).fill("tea"));
    else for (let i = 0; i < Number(n); i++) last = await create("tea");
    console.log("done", JSON.parse(JSON.stringify({ last }, idsAsText)).last); // survives JSON
  } catch (e) {
    console.log(`error ${e.constructor.name} ${e.message.replace(/\s+/g, " ")}`);
  }
}
process.exit();
