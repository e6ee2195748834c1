// The server's life: found, started, watched, stopped. One server for a window.

import * as vscode from "vscode";
import {
  ExecuteCommandRequest,
  LanguageClient,
  type LanguageClientOptions,
  type ServerOptions,
  State,
  TransportKind,
} from "vscode-languageclient/node";
import { findInterpreter, type Interpreter, NoInterpreter } from "./python";
import { asState, type Phase, type ServerState } from "./state";

/** Commands that the server's hovers may link to. */
const LINKED_COMMANDS = ["kernelwright.openEvidence", "kernelwright.openProgram", "kernelwright.tuneAt"];

/** The client's own binding of the server's commands is left out: the palette's commands have the same names, put the
 * arguments together and show the result, and are there before the server is. */
class Client extends LanguageClient {
  override registerFeature(feature: Parameters<LanguageClient["registerFeature"]>[0]): void {
    if ("registrationType" in feature && feature.registrationType.method === ExecuteCommandRequest.method) {
      return;
    }
    super.registerFeature(feature);
  }
}

export class Server implements vscode.Disposable {
  phase: Phase = "stopped";
  state: ServerState | undefined;
  problem: string | undefined;
  interpreter: Interpreter | undefined;
  private client: Client | undefined;
  private readonly changed = new vscode.EventEmitter<void>();
  /** Fires when phase, state, problem or interpreter have changed. */
  readonly onDidChange = this.changed.event;
  /** Starts and stops follow one another, whatever asks for them. */
  private queue: Promise<void> = Promise.resolve();

  constructor(
    private readonly folder: string,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** Starts the server, or starts it anew. Resolves when it runs or has failed; never rejects. */
  restart(): Promise<void> {
    this.queue = this.queue.then(() => this.stopNow()).then(() => this.startNow());
    return this.queue;
  }

  stop(): Promise<void> {
    this.queue = this.queue.then(() => this.stopNow());
    return this.queue;
  }

  dispose(): void {
    void this.stop();
    this.changed.dispose();
  }

  /** The running client. Waits for a start that is under way; throws, for the user, when there is none. */
  async running(): Promise<LanguageClient> {
    await this.queue;
    if (this.client === undefined) {
      throw new Error(this.problem ?? "The Kernelwright server does not run.");
    }
    return this.client;
  }

  /** Runs one of the server's commands. */
  async execute(command: string, ...args: unknown[]): Promise<unknown> {
    const client = await this.running();
    return client.sendRequest(ExecuteCommandRequest.type, { command, arguments: args as never[] });
  }

  private async startNow(): Promise<void> {
    this.become("starting");
    try {
      this.interpreter = await findInterpreter(this.folder, this.log);
      this.client = this.build(this.interpreter);
      await this.client.start();
      this.become("running");
      this.state = asState(
        await this.client.sendRequest(ExecuteCommandRequest.type, { command: "kernelwright.state" }),
      );
      this.changed.fire();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.client = undefined;
      this.become("failed", reason);
      this.log.error(reason);
      void this.complain(error instanceof NoInterpreter ? reason : `The Kernelwright server did not start: ${reason}`);
    }
  }

  private async stopNow(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.state = undefined;
    if (client) {
      // one that has crashed is stopped already, one that hangs must not keep us
      await client.stop(5000).catch((error: unknown) => this.log.warn(`stop: ${error}`));
      await client.dispose().catch(() => undefined);
    }
    this.become("stopped");
  }

  private build(interpreter: Interpreter): Client {
    const [command = "python3", ...args] = interpreter.candidate.command;
    const serverOptions: ServerOptions = {
      command,
      args: [...args, "-m", "kernelwright.server"],
      transport: TransportKind.stdio,
      // not the workspace: `-m` would import what lies there
      options: { cwd: this.folder },
    };
    const options: LanguageClientOptions = {
      documentSelector: [
        { language: "python", scheme: "file" },
        { language: "python", scheme: "untitled" },
      ],
      initializationOptions: { trusted: vscode.workspace.isTrusted },
      synchronize: { configurationSection: "kernelwright" },
      outputChannel: this.log,
      traceOutputChannel: this.log,
      markdown: { isTrusted: { enabledCommands: LINKED_COMMANDS } },
      connectionOptions: { maxRestartCount: 3 },
    };
    const client = new Client("kernelwright", "Kernelwright", serverOptions, options);
    client.onNotification("kernelwright/state", (value: unknown) => {
      this.state = asState(value) ?? this.state;
      this.changed.fire();
    });
    client.onDidChangeState(({ newState }) => {
      if (this.client === client && newState === State.Stopped && this.phase === "running") {
        this.become("failed", "The server stopped unexpectedly. The log tells more.");
      } else if (this.client === client && newState === State.Running && this.phase === "failed") {
        this.become("running"); // the client has started it again
      }
    });
    return client;
  }

  private become(phase: Phase, problem?: string): void {
    this.phase = phase;
    this.problem = problem;
    this.changed.fire();
  }

  private async complain(message: string): Promise<void> {
    const select = "Select interpreter";
    const settings = "Open settings";
    const log = "Show log";
    const chosen = await vscode.window.showErrorMessage(`Kernelwright: ${message}`, select, settings, log);
    if (chosen === select) {
      await vscode.commands.executeCommand("kernelwright.selectInterpreter");
    } else if (chosen === settings) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "kernelwright.interpreter");
    } else if (chosen === log) {
      this.log.show();
    }
  }
}
