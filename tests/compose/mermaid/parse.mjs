// Reads a JSON list of Mermaid texts from stdin, and writes for each what Mermaid's own parser made of it.
// It is given to node as a text, so that packages are looked for in the folder in which node is started.

import { JSDOM } from "jsdom";

globalThis.window = new JSDOM("").window; // Mermaid cleans labels with DOMPurify, which needs a browser's document
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");
await mermaid.parse("flowchart TD"); // the first call of all registers the kinds of diagrams

// Mermaid hides entities (#35;) from its grammar, and puts them back when it draws.
function decoded(label) {
  const area = document.createElement("textarea");
  area.innerHTML = (label ?? "").replaceAll("ﬂ°°", "&#").replaceAll("ﬂ°", "&").replaceAll("¶ß", ";");
  return area.value;
}

async function parsed(text) {
  const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
  const groups = db.getSubGraphs();
  const inside = new Set(groups.map((group) => group.id));
  const nodes = [...db.getVertices().values()].filter((node) => !inside.has(node.id));
  return {
    nodes: nodes.map((node) => ({ id: node.id, label: decoded(node.text), shape: node.type })),
    groups: groups.map((group) => ({ id: group.id, label: decoded(group.title), members: group.nodes })),
    edges: db.getEdges().map((e) => ({ source: e.start, target: e.end, label: decoded(e.text), stroke: e.stroke })),
  };
}

let given = "";
for await (const chunk of process.stdin) given += chunk;
const answers = [];
for (const text of JSON.parse(given)) {
  try {
    answers.push(await parsed(text));
  } catch (error) {
    answers.push({ error: String(error.message ?? error) });
  }
}
process.stdout.write(JSON.stringify(answers));
