"use strict";
// Runs the simulator in a worker: advances a run as far as the page allows, and posts its samples.
//
// Messages to it: `module` (the compiled WebAssembly module), `open` (a scenario, with the number of its run),
// `grant` (the number of samples up to which it may compute), `finish`. Messages from it have the number of their run.

const EVENTS = 20_000;
const SAMPLE = 1;
const DONE = 2;
const FAILED = 4;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const channel = new MessageChannel();
let module = null;
let core = null;
let run = 0;
let granted = 0;
let samples = 0;
let isDone = true;
let isBusy = false;
let busyMs = 0;

function output() {
  const [place, length] = [core.output(), core.output_length()];
  return decoder.decode(new Uint8Array(core.memory.buffer, place, length));
}

// Calls a function of the module. A panic is a trap, and its message is in the output.
function call(name, ...given) {
  let status = FAILED;
  let text;
  try {
    status = core[name](...given);
    text = output();
  } catch (error) {
    text = output() || String(error);
  }
  if ((status & FAILED) !== 0) {
    isDone = true;
    postMessage({ kind: "error", run, text });
  }
  return [status, text];
}

async function open({ number, text }) {
  run = number;
  isDone = true;
  // Each run has a separate instance, because the memory of a module never shrinks.
  const { exports } = await WebAssembly.instantiate(module, {});
  if (run !== number) return;
  core = exports;
  [granted, samples, busyMs] = [0, 0, 0];
  const bytes = encoder.encode(text);
  // `input` may grow the memory, which then has another buffer.
  const place = core.input(bytes.length);
  new Uint8Array(core.memory.buffer, place, bytes.length).set(bytes);
  const [status, network] = call("open_run");
  if ((status & FAILED) !== 0) return;
  isDone = false;
  postMessage({ kind: "network", run, network: JSON.parse(network) });
}

function step() {
  isBusy = false;
  if (isDone || samples >= granted) return;
  const began = performance.now();
  const [status, text] = call("advance", EVENTS);
  busyMs += performance.now() - began;
  if ((status & FAILED) !== 0) return;
  if ((status & SAMPLE) !== 0) {
    samples += 1;
    postMessage({ kind: "sample", run, sample: JSON.parse(text), busyMs });
  }
  if ((status & DONE) !== 0) {
    isDone = true;
    postMessage({ kind: "done", run });
    return;
  }
  proceed();
}

// Messages of the page are received between two steps.
function proceed() {
  if (isBusy) return;
  isBusy = true;
  channel.port2.postMessage(0);
}

channel.port1.onmessage = step;

onmessage = ({ data }) => {
  if (data.kind === "module") ({ module } = data);
  if (data.kind === "open") open(data);
  if (data.kind === "grant" && data.run === run) {
    granted = Math.max(granted, data.count);
    proceed();
  }
  if (data.kind === "finish" && data.run === run) {
    const [status, text] = call("finish");
    if ((status & FAILED) === 0) postMessage({ kind: "results", run, results: text });
  }
};
