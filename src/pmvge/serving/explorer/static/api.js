// Requests to the server. Every answer names its model; answers of another model are not shown.

import { byId } from "./dom.js";

const base = new URL("./", location.href);
let token = sessionStorage.getItem("pmvge-token");
let asking = null;

// An error that is one sentence for the user.
export class Problem extends Error {}

// The server has another model than the page.
export class OtherModel extends Error {}

export const api = {
  model: null, // the checksum of the model that the page shows
  onOther: () => {},

  // Return the answer to a request, as JSON.
  async ask(path, body, { signal, model } = {}) {
    const response = await send(path, body, signal);
    this.check(response, model ?? this.model);
    return response.json();
  },

  // Return facts on the model that the server has now.
  async facts() {
    return (await send("explore/model")).json();
  },

  // Return the coordinates of all entities on the map of a model.
  async points(model) {
    const response = await send("explore/points");
    this.check(response, model, false);
    return new Float32Array(await response.arrayBuffer());
  },

  check(response, model, tell = true) {
    const given = response.headers.get("X-Model");
    if (model === null || given === model) return;
    if (tell) this.onOther(given);
    throw new OtherModel(`expected model ${model}, got ${given}`);
  },
};

async function send(path, body, signal) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const used = token;
  let response;
  try {
    response = await fetch(new URL(path, base), {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer. Is it still running?");
  }
  if (response.status === 401) {
    if (used === token) await askToken(used !== null);
    return send(path, body, signal);
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Problem(answer.error ?? `The server answered with status ${response.status}.`);
  }
  return response;
}

// Ask for the token in a dialog, once for all requests that wait for it.
function askToken(wrong) {
  asking ??= new Promise((resolve) => {
    const dialog = byId("ask");
    const input = byId("token");
    if (wrong) byId("ask-note").textContent = "The server did not accept this token.";
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      token = input.value.trim();
      sessionStorage.setItem("pmvge-token", token);
      asking = null;
      resolve();
    }, { once: true });
    input.value = "";
    dialog.showModal();
  });
  return asking;
}
