// Addresses of the page, by the history API.

const routes = [];
let leave = null;
let current = null;

// `show(parts, query)` shows a view and gives a function that ends it. The same `show` may keep its view: see views/job.js.
export function route(pattern, section, show) {
  routes.push({ pattern, section, show });
}

export function navigate(url, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  display({ moved: true });
}

// Change the query only: the view knows it already.
export function setQuery(query) {
  history.replaceState(null, "", location.pathname + query);
}

function display({ moved }) {
  for (const { pattern, section, show } of routes) {
    const match = pattern.exec(location.pathname);
    if (match === null) continue;
    for (const link of document.querySelectorAll("[data-section]")) {
      if (link.dataset.section === section) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (leave !== null && (show !== current || !leave.keep)) { leave(); leave = null; }
    current = show;
    leave = show(match.slice(1).map((part) => (part === undefined ? undefined : decodeURIComponent(part))), new URLSearchParams(location.search), leave);
    if (moved) scrollTo(0, 0);
    return;
  }
  navigate("/", { replace: true });
}

export function startRouter() {
  addEventListener("popstate", () => display({ moved: false }));
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest("a[href^='/']");
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.hasAttribute("download")) return;
    if (link.getAttribute("href").startsWith("/assets/")) return;
    event.preventDefault();
    navigate(link.getAttribute("href"));
  });
  display({ moved: false });
}
