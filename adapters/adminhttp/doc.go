// Package adminhttp is the operator's side of a daemon over HTTP: its health and status, the
// administration of its queues, pipelines, resources and storage behind an admin token, and a client
// for all of it.
//
// What is served:
//
//	GET    /livez                               "ok" while the process lives
//	GET    /readyz                              200, or 503 with the checks that fail
//	GET    /openapi.yaml                        this API and the queue protocol, as OpenAPI 3.1
//	GET    /metrics                             the figures of the daemon, for Prometheus
//	GET    /statusz                             how the daemon is and what it holds
//	GET    /v1/queues                           {"queues":[{"id","ok","error"?}]}
//	GET    /v1/queues/<id>                      {"id","ok","error"?}
//	PUT    /v1/queues/<id>                      creates it: 201, or 409 if there is one
//	POST   /v1/queues/<id>                      the queue protocol, with the queue's own token
//	DELETE /v1/queues/<id>                      removes it with its messages: 204
//	POST   /v1/queues/<id>/token                {overlapSeconds?}: a new token, as a binding
//	GET    /v1/queues/<id>/binding              {"service","endpoint","token"}
//	GET    /v1/queues/<id>/stats                the counts, as the queue protocol has them
//	POST   /v1/queues/<id>/backup               {path}: copies it to a file of the daemon's machine: 201
//	POST   /v1/queues/<id>/verify               checks its file: 204
//	DELETE /v1/queues/<id>/undecodable/<row>    removes a row that cannot be decoded: 204
//	GET    /v1/pipelines                        {"pipelines":[types.PipelineStatus]}
//	GET    /v1/pipelines/<pipeline>             a types.PipelineStatus
//	GET    /v1/pipelines/<pipeline>/binding     {"endpoint","token"}: where events are posted, and with what
//	POST   /v1/pipelines/<pipeline>/events      one event as application/json, or one a line as
//	                                            application/x-ndjson: 202 {"accepted"}, all or none
//	GET    /v1/checkpoints                      {"checkpoints":[{"pipeline","checkpoint"}]}
//	GET    /v1/checkpoints/<pipeline>           {"pipeline","checkpoint":{"cursor","module"?,"updated_at"?}}
//	PUT    /v1/checkpoints/<pipeline>           {cursor,module?,override?}: 200, or 409 CHECKPOINT_PROVENANCE
//	DELETE /v1/checkpoints/<pipeline>           204
//	GET    /v1/deadletters                      {"pipelines":[{"pipeline","count"}]}
//	GET    /v1/deadletters/<pipeline>           ?after&skip&take&monitor&sink&reason: {"letters","total"?,"through"?}
//	POST   /v1/deadletters/<pipeline>           {action,monitor?,sink?,reason?,through?}: preview, replay, discard
//	GET    /v1/deadletters/<pipeline>/<match>   {"position","letter"}, or "error" instead of the letter
//	DELETE /v1/deadletters/<pipeline>/<match>   discards it: 204
//	POST   /v1/deadletters/<pipeline>/<match>/replay  delivers it to its sink, and removes it then: 204
//	GET    /v1/pauses                           {"pauses":[{"target","id"}]}
//	PUT    /v1/pauses/<target>/<id>             204; the id of a monitor or a sink is pipeline/name
//	DELETE /v1/pauses/<target>/<id>             204
//	GET    /v1/resources                        {"kinds":[…]}
//	GET    /v1/resources/<kind>                 ?after&limit: {"resources":[{"kind","id","version","value"}],"next"?}
//	GET    /v1/resources/<kind>/<id>            the value byte for byte, its version as the ETag
//	PUT    /v1/resources/<kind>/<id>            the value: creates (201), or updates with If-Match (200)
//	DELETE /v1/resources/<kind>/<id>            204, with If-Match; 428 without
//	POST   /v1/storage/backup                   {path}: copies it to a file of the daemon's machine: 201
//	POST   /v1/storage/verify                   checks its file: 204
//	GET    /v1/storage/export                   all that it holds, as the JSON Lines of ports.WriteArchive
//
// The first three and the metrics need no token and tell no secret and no content. All others, the queue
// protocol aside, want a token, and find it missing or wrong (401) before they look at anything else. The
// admin token does for all of them; the read-only token does for every GET but those of bindings and of
// the export, and is 403 for the rest. Events are posted with the token of their pipeline, or the admin
// token; an unknown pipeline is 401 there, as a wrong token is. Errors are those of the queue protocol: {code, message, retryable, httpStatusCode,
// context?}. Names are exact: an unknown member or query parameter is 400, an unknown method 405 with
// Allow.
//
// A resource of the kind "pipeline" is checked by the engine before it is stored, and 400 if the pipeline
// could not be run. Once it is stored the engine is told, and the answer waits for the change to take
// effect, but no longer than 10 seconds.
//
// A page of letters or resources ends early where it reaches 16 MiB. Actions on many letters end when
// their client goes away, and what was done by then stays done. An export that fails in the middle is
// cut off, and has no last line.
//
// The queues, the queue protocol's handler, the storage, the control of pipelines, what runs them, the
// metrics and the checks are handed in; how a daemon is run is left to others.
package adminhttp
