// Sets the chosen colours before the first paint. Without a choice the system decides.
(() => {
  try {
    const theme = localStorage.getItem("headway-theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch { /* A browser may refuse storage: then the choice lasts until the page is closed. */ }
})();
