// The page of `headway ui`: its routes, its colours and its keys. Views are loaded when they are shown.

import { route, startRouter } from "./parts/router.js";
import { startKeys } from "./parts/keys.js";
import { showJob } from "./views/job.js";
import { showJobs } from "./views/jobs.js";
import { showLanes } from "./views/lanes.js";

const root = document.documentElement;
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme || (darkSystem.matches ? "dark" : "light")) === "dark";

function nameTheme() {
  const button = document.getElementById("theme");
  button.textContent = isDark() ? "☀" : "☾";
  button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`);
  button.title = button.getAttribute("aria-label");
}

function switchTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("headway-theme", root.dataset.theme); } catch { /* It lasts until the page is closed. */ }
  changed();
}

function changed() {
  nameTheme();
  dispatchEvent(new Event("headway-theme"));
}

document.getElementById("theme").addEventListener("click", switchTheme);
darkSystem.addEventListener("change", changed);
nameTheme();

route(/^\/$/, "jobs", showJobs);
route(/^\/lanes$/, "lanes", showLanes);
route(/^\/jobs\/([^/]+)(?:\/([a-z]+)(?:\/([^/]+))?)?$/, "jobs", showJob);
startKeys({ theme: switchTheme });
startRouter();
performance.mark("headway-opened");
