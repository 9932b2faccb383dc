// Two texts compared word by word. The work is bounded: long texts are compared line by line, very long ones not at all.

const MOST_STEPS = 4_000_000;
const LEAST_ALIKE = 0.2;

// Parts [kind, text] from `first` to `second`, where kind is "same", "removed" or "added"; null if they are too long or too different.
function wordDiff(first, second) {
  for (const pattern of [/\s+|[\p{L}\p{N}_]+|[^\s]/gu, /[^\n]*\n|[^\n]+/g]) {
    const parts = compare(first.match(pattern) || [], second.match(pattern) || []);
    if (parts !== null) return alike(parts, first, second) ? parts : null;
  }
  return null;
}

function alike(parts, first, second) {
  const same = parts.reduce((sum, [kind, text]) => sum + (kind === "same" ? text.length : 0), 0);
  return same >= LEAST_ALIKE * Math.max(1, Math.min(first.length, second.length));
}

function compare(first, second) {
  let start = 0;
  while (start < first.length && start < second.length && first[start] === second[start]) start++;
  let end = 0;
  while (end < first.length - start && end < second.length - start && first[first.length - 1 - end] === second[second.length - 1 - end]) end++;
  const middle = longest(first.slice(start, first.length - end), second.slice(start, second.length - end));
  if (middle === null) return null;
  return joined([["same", first.slice(0, start).join("")], ...middle, ["same", first.slice(first.length - end).join("")]]);
}

// By the longest common subsequence.
function longest(first, second) {
  const rows = first.length, width = second.length + 1;
  if (rows * width > MOST_STEPS || second.length > 60_000) return null;
  const lengths = new Uint16Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = width - 2; j >= 0; j--) {
      lengths[i * width + j] = first[i] === second[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  return walk(first, second, lengths, width);
}

function walk(first, second, lengths, width) {
  const parts = [];
  let i = 0, j = 0;
  while (i < first.length || j < second.length) {
    if (i < first.length && j < second.length && first[i] === second[j]) { parts.push(["same", first[i++]]); j++; }
    else if (j >= second.length || (i < first.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) parts.push(["removed", first[i++]]);
    else parts.push(["added", second[j++]]);
  }
  return parts;
}

// Neighbours of a kind become one part. White space between two changes belongs to both: words are read more easily than islands.
function joined(parts) {
  const all = [];
  let removed = "", added = "";
  const flush = () => {
    if (removed) all.push(["removed", removed]);
    if (added) all.push(["added", added]);
    removed = added = "";
  };
  parts.forEach(([kind, text], n) => {
    if (kind === "removed") removed += text;
    else if (kind === "added") added += text;
    else if ((removed || added) && /^[^\S\n]+$/.test(text) && n + 1 < parts.length && parts[n + 1][0] !== "same") { removed += text; added += text; }
    else {
      flush();
      if (all.length && all[all.length - 1][0] === "same") all[all.length - 1][1] += text;
      else if (text !== "") all.push(["same", text]);
    }
  });
  flush();
  return all;
}
