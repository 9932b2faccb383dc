module.exports = (output, context) => ({
  pass: output.includes(context.vars.wanted),
  score: 0.75,
  reason: "seen in a file",
});
