// What the server says about itself, and how the status bar tells it. Pure.

/** The object of `kernelwright/state` and of the command `kernelwright.state`. */
export interface ServerState {
  readonly background: string;
  readonly device: string | null;
  readonly queue: number;
  readonly paused: boolean;
  /** Null: numbers can be had. Else one line: why not, and what to do. */
  readonly available: string | null;
}

/** Where the server stands, as the extension sees it. */
export type Phase = "starting" | "running" | "stopped" | "failed";

export interface StatusText {
  readonly text: string;
  /** Markdown. */
  readonly tooltip: string;
  readonly warning: boolean;
}

/** The status-bar entry for a phase and, while running, the last state that the server sent. `problem` is the reason of a
 * failure. */
export function statusText(phase: Phase, state: ServerState | undefined, problem?: string): StatusText {
  if (phase === "failed") {
    return { text: "$(warning) Kernelwright", tooltip: problem ?? "The server does not run.", warning: true };
  }
  if (phase === "stopped") {
    return { text: "$(circle-slash) Kernelwright", tooltip: "The server is stopped.", warning: false };
  }
  if (phase === "starting" || state === undefined) {
    return { text: "$(loading~spin) Kernelwright", tooltip: "The server is starting.", warning: false };
  }
  const lines = [`**Kernelwright** on ${state.device ?? "a device that is not probed yet"}`];
  if (state.available !== null) {
    lines.push(`No numbers: ${state.available}`);
    return { text: "$(zap) Kernelwright", tooltip: lines.join("\n\n"), warning: false };
  }
  lines.push(`Background: ${state.background}${state.paused ? ", paused" : ""}`);
  if (state.queue > 0) {
    lines.push(`${state.queue} to measure`);
  }
  const tooltip = lines.join("\n\n");
  if (state.paused) {
    return { text: "$(debug-pause) Kernelwright", tooltip, warning: false };
  }
  if (state.queue > 0) {
    return { text: `$(sync~spin) Kernelwright ${state.queue}`, tooltip, warning: false };
  }
  return { text: "$(zap) Kernelwright", tooltip, warning: false };
}

/** Reads what came over the wire; undefined where it is not a state. */
export function asState(value: unknown): ServerState | undefined {
  if (typeof value !== "object" || value === null) {
    return undefined;
  }
  const { background, device, queue, paused, available } = value as Record<string, unknown>;
  if (typeof background !== "string" || typeof queue !== "number" || typeof paused !== "boolean") {
    return undefined;
  }
  return {
    background,
    device: typeof device === "string" && device !== "" ? device : null,
    queue,
    paused,
    available: typeof available === "string" ? available : null,
  };
}
