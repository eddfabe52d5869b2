// Asks the API that docs/page.md names. Every request goes to the server of this page.

import { token } from "./token.js";

/** What the server refused, in its own words (RFC 9457). */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  const response = await fetch(path, { cache: "no-store", ...options, headers });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Refused(response.status, problem.detail ?? `${response.status} ${response.statusText}`);
}

/** What is at a path, as JSON. */
export const get = async (path) => (await ask(path)).json();

/** What is at a path, as text. */
export const text = async (path) => (await ask(path)).text();

/** Asks for a change that has no body; the answer is JSON. */
export const change = async (method, path) => (await ask(path, { method })).json();

const written = (body, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
  signal,
});

/** Sends JSON; the answer is JSON. */
export const post = async (path, body) => (await ask(path, written(body))).json();

/** Sends JSON; `take` gets each piece of the answer when it comes. */
export async function stream(path, body, take, signal) {
  const reader = (await ask(path, written(body, signal))).body.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    take(value);
  }
}

/** Sends JSON; `take` gets each line of the answer, as JSON, when it comes. */
export async function lines(path, body, take, signal) {
  const decoder = new TextDecoder();
  let left = "";
  await stream(path, body, (piece) => {
    const whole = (left + decoder.decode(piece, { stream: true })).split("\n");
    left = whole.pop();
    for (const line of whole) if (line) take(JSON.parse(line));
  }, signal);
}

/** A part of a path. */
export const part = encodeURIComponent;
