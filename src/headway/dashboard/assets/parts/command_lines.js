// Commands of the CLI as they are typed, with the flags that lead to the same records.

// A word of a command line, quoted where a shell would split it.
export const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + String(text).replaceAll("'", "'\\''") + "'");

// The server writes the flags into the page: they are quoted already.
export const commandLine = (...words) => ["headway", ...words.map(shellWord), ...(document.body.dataset.flags ? [document.body.dataset.flags] : [])].join(" ");
