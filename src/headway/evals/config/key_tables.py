"""Every key of an eval's configuration. The reader and docs/reference/eval-files.md both come from these tables."""

from __future__ import annotations

from typing import Final

from headway.evals.config.key_sections import (
    AMOUNT,
    ANY,
    COUNT,
    ENTRIES,
    LIST,
    MAPPING,
    NUMBER,
    SWITCH,
    TEXT,
    TEXT_OR_MAPPING,
    TEXTS,
    WORDS,
    EvalKey,
    KeySection,
    refused,
    refused_unless,
    unused,
)

_FUNCTION: Final = "an expression of JavaScript, or file://NAME.js or file://NAME.py, with :FUNCTION"

FILE: Final = KeySection(
    "The file",
    {
        "description": EvalKey(TEXT, "What the eval is for."),
        "tags": EvalKey(MAPPING, "Words for people: name → text."),
        "prompts": EvalKey(
            ENTRIES,
            "The prompts: a text, a file or pattern, an object, or a list of them. `{{prompt}}` by default.",
        ),
        "providers": EvalKey(ENTRIES, "What is compared: ids, objects, files with them."),
        "targets": EvalKey(ENTRIES, "Another name of `providers`."),
        "tests": EvalKey(
            ENTRIES,
            "The tests: a file or pattern, or a list of tests and files. One test without variables by default.",
        ),
        "scenarios": EvalKey(ENTRIES, "Sets of values, each combined with the same tests."),
        "defaultTest": EvalKey(
            TEXT_OR_MAPPING, "What every test has unless it says otherwise; or a file with it."
        ),
        "assertionTemplates": EvalKey(
            MAPPING, "Assertions that `$ref: '#/assertionTemplates/NAME'` repeats."
        ),
        "derivedMetrics": EvalKey(
            LIST, "Metrics that are computed from others: `name` and `value`, an expression."
        ),
        "env": EvalKey(
            MAPPING, "Variables of templates (`{{env.NAME}}`) and addresses of providers; never keys."
        ),
        "evaluateOptions": EvalKey(MAPPING, "How the eval runs."),
        "commandLineOptions": EvalKey(MAPPING, "Defaults of the command line."),
        "outputPath": EvalKey(TEXTS, "Files that the results are written to."),
        "metadata": EvalKey(MAPPING, "Metadata of every test."),
        "$schema": unused("For editors; not used."),
        "sharing": EvalKey(ANY, "Only false: nothing is ever shared."),
        "writeLatestResults": refused_unless(True, "every job is kept", "delete the job afterwards"),
        "basePath": refused(
            "paths begin at the folder of the configuration", "move the file, or write the paths out"
        ),
        "nunjucksFilters": refused(
            "filters in JavaScript are not run in templates",
            "use built-in filters, or a variable from a file",
        ),
        "extensions": refused("hooks around tests are not run", "prepare files before the eval"),
        "redteam": refused(
            "attacks are not generated", "generate them with promptfoo, and name the file in tests"
        ),
        "plugins": refused(
            "attacks are not generated", "generate them with promptfoo, and name the file in tests"
        ),
        "strategies": refused(
            "attacks are not generated", "generate them with promptfoo, and name the file in tests"
        ),
        "tracing": refused("traces are not collected"),
    },
    about="YAML or JSON. `{{env.NAME}}` is replaced by a variable of the environment or of `env`, and `$ref` by the part of the file that it names. Other templates are rendered for each cell.",
)
EVALUATE_OPTIONS: Final = KeySection(
    "evaluateOptions",
    {
        "maxConcurrency": EvalKey(
            COUNT, "The most requests at a time, over all lanes. Unset, the lanes decide."
        ),
        "delay": EvalKey(AMOUNT, "Milliseconds between requests. Everything then runs one by one."),
        "repeat": EvalKey(COUNT, "How often each test runs; 1 by default."),
        "cache": EvalKey(SWITCH, "Whether known answers are used; true by default."),
        "timeoutMs": EvalKey(
            AMOUNT, "The longest time of a request in milliseconds; 0: that of headway.toml."
        ),
        "maxEvalTimeMs": EvalKey(
            AMOUNT,
            "The longest time of the eval in milliseconds; what was not processed ends as timeout rows. 0: no limit.",
        ),
        "showProgressBar": unused("Not used: `--quiet` of the command line."),
        "silent": unused("Not used: `--quiet` of the command line."),
        "generateSuggestions": refused("prompts are not generated"),
        "suggestionsCount": refused("prompts are not generated"),
        "interactiveProviders": refused("a provider cannot ask the user", "set maxConcurrency: 1"),
        "filterRange": refused(
            "a range of tests is not chosen in the file", "use --filter-first-n or --filter-pattern"
        ),
        "isRedteam": refused("attacks are not generated"),
    },
)
COMMAND_LINE_OPTIONS: Final = KeySection(
    "commandLineOptions",
    {
        "description": EvalKey(TEXT, "The description."),
        "maxConcurrency": EvalKey(COUNT, "As in evaluateOptions, and before it."),
        "repeat": EvalKey(COUNT, "As in evaluateOptions, and before it."),
        "delay": EvalKey(AMOUNT, "As in evaluateOptions, and before it."),
        "cache": EvalKey(SWITCH, "As in evaluateOptions, and before it."),
        "output": EvalKey(TEXTS, "Files that the results are written to."),
        "grader": EvalKey(TEXT, "The grader of assertions that name none."),
        "promptPrefix": EvalKey(TEXT, "A text in front of every prompt."),
        "promptSuffix": EvalKey(TEXT, "A text after every prompt."),
        "verbose": unused("Not used."),
        "progressBar": unused("Not used: `--quiet` of the command line."),
        "table": unused("Not used."),
        "tableCellMaxLength": unused("Not used."),
        "write": refused_unless(True, "every job is kept", "delete the job afterwards"),
        "share": refused("results are not sent anywhere", "write a file with --out results.html"),
        "noShare": unused("Nothing is ever shared."),
        "tags": EvalKey(MAPPING, "Words for people."),
        "envPath": refused("the .env beside headway.toml is read", "put the variables there"),
        "filterPattern": refused("filters are chosen on the command line", "--filter-pattern"),
        "filterProviders": refused("filters are chosen on the command line", "--filter-providers"),
        "filterTargets": refused("filters are chosen on the command line", "--filter-providers"),
        "filterFailing": refused("filters are chosen on the command line", "--filter-failing"),
        "filterFirstN": refused("filters are chosen on the command line", "--filter-first-n"),
        "filterSample": refused("filters are chosen on the command line", "--filter-pattern"),
    },
)
PROMPT: Final = KeySection(
    "prompts: an object",
    {
        "id": EvalKey(TEXT, "Its id; a file if there is no `raw`."),
        "label": EvalKey(WORDS, "Its name in reports, and in `prompts` of providers and tests."),
        "raw": EvalKey(TEXT, "Its text, or a file."),
        "config": EvalKey(MAPPING, "Parameters of its requests; `prefix` and `suffix` are texts around it."),
        "prefix": EvalKey(TEXT, "A text in front of it."),
        "suffix": EvalKey(TEXT, "A text after it."),
        "display": EvalKey(TEXT, "An older name of `label`."),
        "template": unused("Not used."),
        "function": refused("a function cannot be written in YAML", "write a template"),
    },
)
PROVIDER: Final = KeySection(
    "providers: an object",
    {
        "id": EvalKey(
            TEXT,
            "What it is: see the table of ids.",
        ),
        "label": EvalKey(WORDS, "Its name in reports, and in `providers` of tests."),
        "config": EvalKey(TEXT_OR_MAPPING, "Its address, limits and parameters."),
        "prompts": EvalKey(TEXTS, "The labels or ids of the prompts that it gets; all by default."),
        "transform": EvalKey(TEXT, f"Changes each answer: {_FUNCTION}."),
        "delay": EvalKey(AMOUNT, "The least milliseconds between two of its requests: its lane's min_gap."),
        "env": EvalKey(MAPPING, "Variables of its templates and its address; never keys."),
        "inputs": refused("inputs of red teams are not generated"),
    },
)
PROVIDER_CONFIG: Final = KeySection(
    "config of a provider of models",
    {
        "apiKeyEnvar": EvalKey(
            TEXT, "The variable that holds the key. Only so does a key go to another host than the vendor's."
        ),
        "apiBaseUrl": EvalKey(TEXT, "The address of the API."),
        "apiHost": EvalKey(TEXT, "The same without https:// and path."),
        "baseURL": EvalKey(TEXT, "Another name of `apiBaseUrl`."),
        "endpoint": EvalKey(TEXT, "Another name of `apiBaseUrl`."),
        "apiVersion": EvalKey(TEXT, "The version of Azure's API."),
        "region": EvalKey(TEXT, "The region of Bedrock."),
        "rateLimit": EvalKey(MAPPING, "The limits of its lane: `rpm`, `tpm`, `maxConcurrent`."),
        "cost": EvalKey(AMOUNT, "USD for a token, in and out."),
        "inputCost": EvalKey(AMOUNT, "USD for an input token."),
        "outputCost": EvalKey(AMOUNT, "USD for an output token."),
        "passthrough": EvalKey(MAPPING, "Parameters that are sent as they are."),
        "extra_body": EvalKey(MAPPING, "The same."),
        "apiKeyRequired": unused("Not used: a server on this machine needs no key."),
        "maxRetries": refused("headway.toml has the attempts", "set max_attempts in [run]"),
        "showThinking": refused("the output never contains the model's reasoning"),
        "omitDefaults": refused_unless(
            True, "only parameters that are written are sent", "write temperature and max_tokens"
        ),
        "apiKey": refused("a key is never written into this file", "name its variable: apiKeyEnvar: NAME"),
        "organization": refused(
            "the header OpenAI-Organization is not sent", "use a key of that organization"
        ),
        "headers": refused("requests have no headers of their own", "use an http provider"),
        "functionToolCallbacks": refused(
            "functions are not called during a test", "check the call with an assertion"
        ),
        "mcp": refused("MCP servers are not called"),
        "stream": refused("the lane decides whether answers are streamed", "set stream in headway.toml"),
        "modalities": refused("answers are texts"),
        "audio": refused("answers are texts"),
        "accessKeyId": refused("a key is never written into this file", "export AWS_ACCESS_KEY_ID"),
        "secretAccessKey": refused("a key is never written into this file", "export AWS_SECRET_ACCESS_KEY"),
        "sessionToken": refused("a key is never written into this file", "export AWS_SESSION_TOKEN"),
        "profile": refused("the profile is not chosen here", "export AWS_PROFILE"),
        "azureClientId": refused(
            "Azure's client credentials are not used", "name the key's variable: apiKeyEnvar"
        ),
        "azureClientSecret": refused(
            "a key is never written into this file", "name its variable: apiKeyEnvar"
        ),
        "azureTenantId": refused(
            "Azure's client credentials are not used", "name the key's variable: apiKeyEnvar"
        ),
        "credentials": refused("service accounts are not used", "name the key's variable: apiKeyEnvar"),
    },
    others="a parameter of the request, if its API has it: see the parameters. Both `max_tokens` and `maxTokens` are understood",
)
_CATEGORY: Final = EvalKey(AMOUNT, "The score of an answer of this category.")
FACTUALITY: Final = KeySection(
    "factuality",
    dict.fromkeys(("subset", "superset", "agree", "disagree", "differButFactual"), _CATEGORY),
)
RATE_LIMIT: Final = KeySection(
    "config.rateLimit",
    {
        "rpm": EvalKey(AMOUNT, "Requests a minute."),
        "tpm": EvalKey(AMOUNT, "Tokens a minute."),
        "maxConcurrent": EvalKey(COUNT, "Requests in flight."),
    },
)
OPTIONS: Final = KeySection(
    "options of a test",
    {
        "prefix": EvalKey(TEXT, "A text in front of the prompt."),
        "suffix": EvalKey(TEXT, "A text after the prompt."),
        "transform": EvalKey(TEXT, f"Changes the answer: {_FUNCTION}."),
        "postprocess": EvalKey(TEXT, "An older name of `transform`."),
        "transformVars": EvalKey(TEXT, "Changes the variables: the same forms as `transform`."),
        "provider": EvalKey(
            TEXT_OR_MAPPING,
            "The grader: an id, a label, an object, or a mapping with `text` and `embedding`.",
        ),
        "rubricPrompt": EvalKey(ENTRIES, "The prompt of the grader: a text, messages, or a file."),
        "runSerially": EvalKey(SWITCH, "Whether it runs before the others, one by one."),
        "storeOutputAs": EvalKey(TEXT, "A variable that later tests find the output in."),
        "repeat": EvalKey(COUNT, "Repetitions of this test, instead of the eval's."),
        "disableVarExpansion": EvalKey(
            SWITCH, "Whether a list is one value, and no dimension of the matrix."
        ),
        "disableDefaultAsserts": EvalKey(SWITCH, "Whether the assertions of defaultTest are left out."),
        "factuality": EvalKey(
            MAPPING, "The scores of `factuality`: subset, superset, agree, disagree, differButFactual."
        ),
        "disableConversationVar": refused(
            "a conversation is not left out for one test", "give the test a conversationId of its own"
        ),
    },
    others="a parameter of the request, as in `config` of a provider",
)
TEST: Final = KeySection(
    "tests: a test",
    {
        "description": EvalKey(WORDS, "What it is about."),
        "vars": EvalKey(
            ENTRIES,
            "The variables: name → value. Each value of a list of texts makes a row of its own. A file or pattern: its content. A name of a file instead of a mapping: the variables in it.",
        ),
        "assert": EvalKey(ENTRIES, "The assertions, or a file with them."),
        "threshold": EvalKey(NUMBER, "The score from which the test passes, instead of all assertions."),
        "options": EvalKey(MAPPING, "How it runs and is graded."),
        "metadata": EvalKey(
            MAPPING, "For reports and filters; `conversationId` is the conversation that it is a turn of."
        ),
        "providers": EvalKey(TEXTS, "The labels or ids of the providers that it is for: `NAME`, `GROUP:*`."),
        "prompts": EvalKey(TEXTS, "The labels or ids of the prompts that it is for."),
        "provider": refused(
            "a test has no provider of its own", "list it in providers, and name it in the test's providers"
        ),
        "providerOutput": refused("an answer is not written in a test", "use the provider echo"),
        "assertScoringFunction": refused("scores are not joined by code", "use weights and a threshold"),
        "id": unused("Not used."),
    },
)
SCENARIO: Final = KeySection(
    "scenarios: a scenario",
    {
        "description": EvalKey(TEXT, "What it is about."),
        "config": EvalKey(ENTRIES, "Sets of values, each with the keys of a test."),
        "tests": EvalKey(ENTRIES, "The tests that run with each set."),
    },
)
ASSERTION: Final = KeySection(
    "assert: an assertion",
    {
        "type": EvalKey(TEXT, "One of the types below; `not-` in front of it turns it round."),
        "value": EvalKey(ANY, "What is compared: a value, a template, a file, code."),
        "threshold": EvalKey(NUMBER, "The score or number that decides."),
        "weight": EvalKey(AMOUNT, "How much it counts in the score; 1 by default, 0: only as a metric."),
        "metric": EvalKey(TEXT, "The metric that its score counts for."),
        "provider": EvalKey(TEXT_OR_MAPPING, "Its grader: an id, a label or an object."),
        "rubricPrompt": EvalKey(ENTRIES, "The prompt of its grader: a text, messages, or a file."),
        "transform": EvalKey(TEXT, f"Changes the answer for this assertion: {_FUNCTION}."),
        "config": EvalKey(MAPPING, "Passed to code."),
        "assert": EvalKey(ENTRIES, "The assertions of an `assert-set`."),
        "contextTransform": refused("contexts of retrieval are not checked"),
    },
)
#: In the order of the page.
SECTIONS: Final = (
    FILE, EVALUATE_OPTIONS, COMMAND_LINE_OPTIONS, PROMPT, PROVIDER, PROVIDER_CONFIG, RATE_LIMIT, TEST, OPTIONS, SCENARIO, ASSERTION,
)  # fmt: skip
