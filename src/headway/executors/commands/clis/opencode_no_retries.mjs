// A plugin that Headway gives to opencode. opencode retries a refused request five times, and no setting changes that.
// This ends the process at the first retry, before anything is sent again, and prints what was refused as an `error` event
// of the form that opencode prints itself. Headway waits, and resumes the session.

// The last failed answer to a POST: the status and the wait, which the event of a retry does not have.
let refusal = {}

function watch(sent, method) {
  if (String(method ?? "GET").toUpperCase() !== "POST") return
  sent.then(
    (response) => {
      refusal = response.ok ? {} : { statusCode: response.status, responseHeaders: waits(response.headers) }
    },
    () => {
      refusal = {}
    },
  )
}

function waits(headers) {
  const names = ["retry-after", "retry-after-ms"].filter((name) => headers.get(name) !== null)
  return Object.fromEntries(names.map((name) => [name, headers.get(name)]))
}

globalThis.fetch = new Proxy(globalThis.fetch, {
  apply(target, self, args) {
    const sent = Reflect.apply(target, self, args)
    watch(sent, args[1]?.method ?? args[0]?.method)
    return sent
  },
})

let isEnding = false

function end(sessionID, message) {
  if (isEnding) return
  isEnding = true
  const error = { name: "APIError", data: { message, ...refusal } }
  const line = JSON.stringify({ type: "error", timestamp: Date.now(), sessionID, error, endedBy: "headway" })
  const kill = () => process.kill(process.pid, "SIGKILL")
  process.stdout.write(line + "\n", kill) // After everything that was printed before.
  setTimeout(kill, 200)
}

// Variables that only this process is meant to see, with what the programs that it starts get instead.
const instead = JSON.parse(process.env.HEADWAY_OPENCODE_INSTEAD ?? "{}")

export const HeadwayNoRetries = async () => ({
  event: async ({ event }) => {
    const status = event.type === "session.status" ? event.properties.status : undefined
    if (status?.type === "retry") end(event.properties.sessionID, status.message)
  },
  "shell.env": async (_input, output) => {
    Object.assign(output.env, instead)
  },
})
