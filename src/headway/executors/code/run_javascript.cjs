// Runs the JavaScript of an eval file. A worker process of Headway starts it, and sends one call a line over a socket:
// {number, role, arguments, file, function, source}. The reply is {number, value} or {number, error}. What the code prints goes to the
// worker's own output, never into a reply.
'use strict';

const net = require('node:net');
const path = require('node:path');
const { createRequire } = require('node:module');
const { pathToFileURL } = require('node:url');

const [descriptor, most] = process.argv.slice(2).map(Number);
const link = new net.Socket({ fd: descriptor, readable: true, writable: true });
// Functions that are kept for the next call. Code that is a template may differ in each cell.
const loadedFunctions = new Map();
const mostLoaded = 256;

// Code without a file has no `require`. It may use process.mainModule.require, which begins in the working directory.
const require_ = createRequire(path.join(process.cwd(), 'code.js'));
const processOfCode = Object.create(process, { mainModule: { value: { require: require_ } } });

function endOfStatements(code) {
  // The last semicolon that is not inside a text, a bracket, or a template; -1 if there is none.
  let last = -1;
  let depth = 0;
  let quote = '';
  for (let place = 0; place < code.length; place++) {
    const character = code[place];
    if (quote) {
      if (character === '\\') place++;
      else if (character === quote) quote = '';
    } else if ('"\'`'.includes(character)) quote = character;
    else if ('([{'.includes(character)) depth++;
    else if (')]}'.includes(character)) depth--;
    else if (character === ';' && depth === 0) last = place;
  }
  return last;
}

function functionBody(source) {
  const code = source.trim().replace(/;+\s*$/, '');
  if (/^(const|let|var)\s/.test(code) && !code.includes('\n')) {
    const end = endOfStatements(code);
    const rest = code.slice(end + 1).trim();
    return end < 0 || /^return\b/.test(rest) ? code : `${code.slice(0, end + 1)} return (${rest}\n);`;
  }
  const expression = `return (${code}\n);`;
  try {
    new Function(expression);
    return expression;
  } catch {
    return code;
  }
}

function inlineFunction(call) {
  const names = Object.keys(call.arguments);
  const code = new Function(...names, 'process', functionBody(call.source));
  return async (...values) => {
    const value = await code(...values, processOfCode);
    return typeof value === 'function' ? value(...values) : value;
  };
}

async function functionOfFile(call) {
  const module = await import(pathToFileURL(call.file).href);
  const places = [module, module.default, module.default && module.default.default];
  if (call.function) {
    const owner = places.find((place) => place && typeof place[call.function] === 'function');
    if (owner) return owner[call.function].bind(owner);
    throw new Error(`it has no function '${call.function}'`);
  }
  const found = places.find((place) => typeof place === 'function');
  if (found === undefined) throw new Error('it exports no function: use module.exports = … or export default …');
  return call.role === 'provider' ? functionOfProvider(found, call) : found;
}

function functionOfProvider(found, call) {
  // A provider is a class with callApi(prompt, context, options), or a function with these arguments.
  if (found.prototype === undefined || typeof found.prototype.callApi !== 'function') return found;
  const provider = new found(call.arguments.options || {});
  return provider.callApi.bind(provider);
}

async function loaded(call) {
  const key = JSON.stringify([call.role, call.file, call.function, call.source, Object.keys(call.arguments)]);
  if (!loadedFunctions.has(key)) {
    if (loadedFunctions.size >= mostLoaded) loadedFunctions.clear();
    loadedFunctions.set(key, call.file ? await functionOfFile(call) : inlineFunction(call));
  }
  return loadedFunctions.get(key);
}

function orderedArguments(call) {
  const given = call.arguments;
  return call.role === 'provider' ? [given.prompt, given.context, given.options] : Object.values(given);
}

function textOf(error) {
  if (!(error instanceof Error)) return `it threw ${typeof error === 'string' ? error : JSON.stringify(error)}`;
  return `${error.name}: ${error.message}`;
}

async function answer(call) {
  let code;
  try {
    code = await loaded(call);
  } catch (error) {
    return { unusable: textOf(error) };
  }
  try {
    const value = await code(...orderedArguments(call));
    const text = value === undefined || Number.isNaN(value) ? 'null' : JSON.stringify(value);
    if (text === undefined) return { error: `it returned a ${typeof value}, which JSON cannot hold` };
    const size = Buffer.byteLength(text);
    return size > most ? { tooLarge: size } : { json: text };
  } catch (error) {
    const stack = error instanceof Error ? String(error.stack) : '';
    return { error: textOf(error), stack };
  }
}

async function reply(line) {
  const call = JSON.parse(line);
  const { json, ...rest } = await answer(call);
  const value = json === undefined ? '' : `,"value":${json}`;
  link.write(`{"number":${call.number},${JSON.stringify(rest).slice(1, -1) || '"ok":true'}${value}}\n`);
}

let rest = [];
link.on('data', (chunk) => {
  let begin = 0;
  for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, begin)) {
    rest.push(chunk.subarray(begin, end));
    const line = Buffer.concat(rest).toString('utf8');
    rest = [];
    begin = end + 1;
    reply(line);
  }
  rest.push(chunk.subarray(begin));
});
link.on('end', () => process.exit(0));
link.on('error', () => process.exit(0));
