import assert from "node:assert/strict";
import { test } from "node:test";
import { asState, type ServerState, statusText } from "../../src/state";

const idle: ServerState = { background: "measure", device: "CPU, 2 threads", queue: 0, paused: false, available: null };

test("idle: a plain entry, the tooltip tells device and background", () => {
  const { text, tooltip, warning } = statusText("running", idle);
  assert.equal(text, "$(zap) Kernelwright");
  assert.match(tooltip, /CPU, 2 threads/);
  assert.match(tooltip, /Background: measure/);
  assert.equal(warning, false);
});

test("a queue is counted, a pause wins over it", () => {
  assert.equal(statusText("running", { ...idle, queue: 3 }).text, "$(sync~spin) Kernelwright 3");
  const paused = statusText("running", { ...idle, queue: 3, paused: true });
  assert.equal(paused.text, "$(debug-pause) Kernelwright");
  assert.match(paused.tooltip, /paused\s+3 to measure/);
});

test("where numbers cannot be had the reason is told", () => {
  const { tooltip } = statusText("running", { ...idle, queue: 2, available: "torch is missing: install it" });
  assert.match(tooltip, /No numbers: torch is missing/);
  assert.doesNotMatch(tooltip, /Background/);
});

test("a failure warns and gives its reason", () => {
  const { text, tooltip, warning } = statusText("failed", undefined, "no Python");
  assert.deepEqual([text, tooltip, warning], ["$(warning) Kernelwright", "no Python", true]);
});

test("starting until the first state has come", () => {
  assert.match(statusText("starting", undefined).text, /loading~spin/);
  assert.match(statusText("running", undefined).text, /loading~spin/);
});

test("what comes over the wire is checked", () => {
  assert.deepEqual(asState({ ...idle, extra: 1 }), idle);
  assert.deepEqual(asState({ background: "off", queue: 0, paused: true, device: "", available: "no torch" }), {
    background: "off",
    device: null,
    queue: 0,
    paused: true,
    available: "no torch",
  });
  for (const wrong of [null, "running", {}, { ...idle, queue: "3" }]) {
    assert.equal(asState(wrong), undefined);
  }
});
