// Tuning on request: a notification with progress and a cancel button, and the report at the end.

import { randomUUID } from "node:crypto";
import * as path from "node:path";
import * as vscode from "vscode";
import { LSPErrorCodes, ResponseError, WorkDoneProgress } from "vscode-languageclient/node";
import type { Reports } from "./documents";
import type { Server } from "./server";

/** The answer to `kernelwright/tune`; the results themselves are in the report. */
interface TuneAnswer {
  readonly text: string;
}

/** Tunes the whole file, or what stands at `line` (from 0). A cancelled run shows nothing: hints that were measured until
 * then stay. */
export async function tune(server: Server, reports: Reports, uri: vscode.Uri, line?: number): Promise<void> {
  const client = await server.running();
  const name = path.posix.basename(uri.path);
  const answer = await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title: `Kernelwright: tuning ${name}`, cancellable: true },
    async (progress, cancelled) => {
      const workDoneToken = randomUUID();
      let reached = 0;
      const listening = client.onProgress(WorkDoneProgress.type, workDoneToken, (value) => {
        if (value.kind !== "report" && value.kind !== "begin") {
          return;
        }
        const percentage = value.percentage ?? reached;
        progress.report({ message: value.message ?? "", increment: Math.max(0, percentage - reached) });
        reached = Math.max(reached, percentage);
      });
      const where = client.code2ProtocolConverter.asUri(uri);
      try {
        return await client.sendRequest<TuneAnswer>(
          "kernelwright/tune",
          { uri: where, line, workDoneToken },
          cancelled,
        );
      } catch (error) {
        if (cancelled.isCancellationRequested || isCancellation(error)) {
          return undefined;
        }
        throw error;
      } finally {
        listening.dispose();
      }
    },
  );
  if (answer) {
    await reports.showMarkdown(`Tuning report of ${name}`, answer.text);
  }
}

function isCancellation(error: unknown): boolean {
  return error instanceof ResponseError && error.code === LSPErrorCodes.RequestCancelled;
}
