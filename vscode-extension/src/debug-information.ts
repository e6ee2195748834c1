// What a bug report needs, as Markdown. Pure. It names paths of this machine: the user sees it before sending it.

import { candidates, type Surroundings } from "./interpreter";
import type { Phase, ServerState } from "./state";

export interface DebugFacts {
  readonly extension: string;
  readonly vscode: string;
  readonly phase: Phase;
  readonly problem: string | undefined;
  readonly interpreter: { readonly executable: string; readonly version: string; readonly server: string } | undefined;
  readonly state: ServerState | undefined;
  readonly surroundings: Surroundings;
  readonly settings: unknown;
}

export function debugInformation(facts: DebugFacts): string {
  const { interpreter, state, surroundings } = facts;
  const considered = candidates(surroundings).map(({ command, source }) => `- \`${command.join(" ")}\` (${source})`);
  return [
    "# Kernelwright debug information",
    `- extension ${facts.extension}, VS Code ${facts.vscode}, ${surroundings.platform}`,
    `- server: ${facts.phase}${facts.problem ? `: ${facts.problem}` : ""}`,
    `- interpreter: ${interpreter ? `\`${interpreter.executable}\`, Python ${interpreter.version}, kernelwright ${interpreter.server}` : "none"}`,
    `- workspace trusted: ${surroundings.trusted ? "yes" : "no"}`,
    "",
    "## Interpreters considered, in order",
    ...considered,
    "",
    "## State of the server",
    fenced(state ?? null),
    "",
    "## Settings",
    fenced(facts.settings),
    "",
  ].join("\n");
}

function fenced(value: unknown): string {
  return `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``;
}
