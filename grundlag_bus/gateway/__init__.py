"""The HTTP host: a bus for whoever cannot reach a broker. What it speaks, for those who write clients.

    GET  /api/client/schema
         The manifest as JSON, as far as the user may use it. ETag; If-None-Match gives 304.
    POST /api/actions/{providerId}/{actionId}       {input, resumption?, items?}   nothing else; application/json
         The response object: {"status": "completed" | "interrupted" | "failed", ...}
    DELETE of the same path, with its Idempotency-Key
         Asks for the end of the call, or lets it not begin if the request is still on its way: 204. Whoever waits for
         the reply gets it: `cancelled` when the action has stopped, or what it was.
    GET  /api/events?pattern=provider.event
         Server-sent events: `event: event`, data = the event {v, id, providerId, eventId, callId, userId?, at, data}.
         Those of the user, and those of nobody. First a comment `: listening`, from where on nothing is missed.
    POST /api/eval                                  {source, inputs?, resumption?}
         Runs a script with the user's tools in the sandbox beside the host: {"status": "completed", value, stdout,
         calls}, or failed: 422 `script_failed` with its line. X-Timeout is for the whole of it. Closing the connection
         cancels. Where its calls ask a person: {"status": "interrupted", interruptId, message, data: [{interruptId,
         function, message, data}], state, answerSchema, expiresAt}. Send the same source and inputs again, with
         resumption {interruptId, answer: {ID: ANSWER}, state}, and it goes on: what has ended is not called again, and
         what was not answered is asked again (`refused` says why an action did not take an answer). The state is
         sealed, for this user, source and inputs, and until the first question expires (410 `interrupt_expired`, 422
         `state_invalid`); it is as large as a request with it may be, else 413. A script is answered once: 409
         `answer_conflict` for anything else, and the same reply to the same answer for 60 s. One process knows that;
         another host, with the same keys, goes on from the state again.
    POST /api/runs                                  {function, input} or {source, inputs?} or {prompt, instructions?},
                                                    with {answerer?, timeout?}
         Starts a durable run, where the host has a store: {runId, kind, name, status, ...}. Idempotency-Key makes that
         repeatable, for ever: the id of the run is made of the user and the key.
    GET  /api/runs?status=&before=&limit=   GET /api/runs/{id}?wait=SECONDS&forPeople=true
    GET  /api/runs/{id}/events?after=N
         Server-sent events: `id: N`, `event: entry`, data = an entry of the journal, and `event: end` after the last.
         A stream that ends without that is joined again, by `after` or Last-Event-ID, and nothing is missed.
    POST /api/runs/{id}/cancel {}           POST /api/runs/{id}/retry {source?}
    GET  /api/interrupts?runId=&limit=      GET /api/interrupts/{id}
    POST /api/interrupts/{id}/answer {answer}, /reject {reason?}, /edit {input}
         Answer with the question as it stands then. A user sees the runs that are the user's own, and the questions
         that the user may answer; any other id is 404 `run_unknown` or `interrupt_unknown`. `interrupt.*` events tell
         of questions at /api/events.
    GET  /openapi.json, /docs, /live, /ready

Headers of a request:

    Authorization: Bearer TOKEN     who calls; the token gives the user id.
    X-User-Id: ID                   on whose behalf. Where the host asks for tokens: the token's user and nobody else
                                    (403); where it asks for none, on loopback: a claim, as on the bus. Optional;
                                    percent-encoded UTF-8.
    Idempotency-Key: KEY            1 to 128 letters, digits, `_`, `.`, `:` and `-`: the same key of the same user is
                                    the same call; 409 `call_id_reused` where it asks for something else. The id of the
                                    call is made of both, so that nobody reaches another's call. That of a resumption is
                                    made of what it says, as on the bus; its key only says which repeats are the same
                                    request, so take a new one for each time that an answer is meant anew.
    X-Sent-Before: 1                a request with a key says that it may have come before: where the host cannot know
                                    (it has just started, or let go of replies early) and the action is not idempotent,
                                    the answer is `outcome_unknown`, and nothing is started. With several hosts behind
                                    one address, let a client stay with one of them.
    traceparent, tracestate         of W3C Trace Context: they go with the call, and with those that its action makes;
                                    what is malformed is ignored.
    X-Timeout: SECONDS              until the deadline; by default 300, and 86400 in lane `long`.
    Accept: text/event-stream       progress while it runs: `event: progress`, data = {done, total?, text?} | {items} |
                                    {started} | {deferredUntil}; then one `event: reply`, data = {"httpStatus": 200,
                                    "response": {...}}. Lines that begin with a colon come every 10 s. What is refused
                                    before the call begins is answered without a stream, as JSON.

A response to a call has `X-Call-Id`, the id that the action and the events know. Who goes away without a key cancels
the call. Who goes away with one has 10 s to come again and join it, with the progress from then on; else it is
cancelled. The reply is kept for 60 s for who comes again (memory has a bound; `overloaded` and `provider_unavailable`,
after which nothing ran, are tried anew). The deadline is the one of who came first.

Every refusal has the body of a failed call, {"status": "failed", code, message, details?, retryable, items}:

    200  completed, interrupted          409  answer_conflict, call_id_reused, cancelled, run_state
    400  input_invalid, answer_invalid   410  interrupt_expired
    401  unauthenticated                 413  payload_too_large
    403  forbidden                       415  input_invalid: the body is no application/json
    404  action_unknown, not_found,      422  state_invalid, run_refused, and a code of the action's own
         run_unknown, interrupt_unknown
    405  method_not_allowed              429  overloaded: this user's calls, with Retry-After
    408  input_invalid: a body too slow   431  input_invalid: headers too large
                                         503  provider_unavailable, overloaded, also while it drains; store_away
                                         504  deadline_exceeded
                                         502  everything else: internal, output_invalid, outcome_unknown, ...

A malformed request is 400 `input_invalid`, with issues.
"""
