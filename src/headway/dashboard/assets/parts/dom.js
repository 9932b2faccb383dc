// Elements. Text from outside reaches the page only as text nodes: it is never parsed as markup.

// Characters that hide text or change its direction, and halves of surrogate pairs, as safe_text.py has them.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu;

export function visible(text) {
  return String(text).replace(UNSAFE, (one) => {
    const code = one.codePointAt(0);
    return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0");
  });
}

// An element. Attributes that are functions listen to the event of their name; a child that is no element becomes text.
export function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : visible(value));
  }
  return add(made, children);
}

export function add(parent, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : visible(child));
  }
  return parent;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, visible(value));
  }
  return add(made, children);
}

// The functions below change the page only where it differs, so that updates ten times a second cost little and keep focus and selection.

export function setText(element, value) {
  const text = visible(value);
  const node = element.firstChild;
  if (node === null) { if (text !== "") element.append(text); }
  else if (node.nodeType === Node.TEXT_NODE && node.nextSibling === null) { if (node.data !== text) node.data = text; }
  else element.textContent = text;
}

export function setClass(element, name) {
  if (element.getAttribute("class") !== name) element.setAttribute("class", name);
}

export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) { if (element.hasAttribute(name)) element.removeAttribute(name); }
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, visible(value));
}

export function show(element, shown) {
  if (element.hidden === Boolean(shown)) element.hidden = !shown;
}

// A share from 0 to 1 of a property, such as width, in percent.
export function setShare(element, property, share) {
  const value = (100 * Math.max(0, Math.min(1, share || 0))).toFixed(2) + "%";
  if (element.style[property] !== value) element.style[property] = value;
}

// Children that stand for items: those of the same key are kept and updated, the others come and go.
export class KeyedChildren {
  // `make(item)` gives { element, update(item) }.
  constructor(parent, keyOf, make) {
    Object.assign(this, { parent, keyOf, make });
    this.parts = new Map();
  }

  update(items) {
    const seen = new Set();
    let before = null;
    for (const item of items) {
      const key = this.keyOf(item);
      if (seen.has(key)) continue;
      seen.add(key);
      let part = this.parts.get(key);
      if (part === undefined) this.parts.set(key, (part = this.make(item)));
      const place = before === null ? this.parent.firstChild : before.nextSibling;
      if (place !== part.element) this.parent.insertBefore(part.element, place);
      part.update(item);
      before = part.element;
    }
    for (const [key, part] of this.parts) {
      if (seen.has(key)) continue;
      part.element.remove();
      if (part.close) part.close();
      this.parts.delete(key);
    }
  }

  values() { return this.parts.values(); }

  close() { for (const part of this.parts.values()) if (part.close) part.close(); }
}

export const isTyping = (target) => target instanceof HTMLElement && target.matches("input, select, textarea, [contenteditable]");
