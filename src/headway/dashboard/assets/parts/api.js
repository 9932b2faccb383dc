// Requests to the server of this page. An error has the server's sentence, which says what to do.

import { commandLine } from "./command_lines.js";

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

let csrf = "";

export async function get(path, signal) {
  const answer = await answerOf(fetch(path, { headers: { Accept: "application/json" }, signal }));
  if (answer && typeof answer.csrf === "string") csrf = answer.csrf;
  return answer;
}

export async function post(path, body) {
  if (csrf === "") await get("/api/jobs?limit=1");
  const headers = { "Content-Type": "application/json", "X-Headway-CSRF": csrf };
  return answerOf(fetch(path, { method: "POST", headers, body: JSON.stringify(body || {}) }));
}

async function answerOf(request) {
  let response;
  try {
    response = await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(`The server does not answer. Start it again: ${commandLine("ui")}`, 0);
  }
  let value = null;
  try { value = await response.json(); } catch { /* An error without JSON has its status only. */ }
  if (!response.ok) throw new ApiError((value && value.error) || `The server answered with status ${response.status}.`, response.status);
  return value;
}

export const query = (pairs) => {
  const text = new URLSearchParams(Object.entries(pairs).filter(([, value]) => value !== null && value !== undefined && value !== "")).toString();
  return text ? "?" + text : "";
};

export const jobPath = (job, ...rest) => ["/jobs", job, ...rest].map((part, n) => (n ? encodeURIComponent(part) : part)).join("/");
export const jobApi = (job, ...rest) => "/api" + jobPath(job, ...rest);
export const laneApi = (lane, what) => `/api/lanes/${encodeURIComponent(lane)}/${what}`;
