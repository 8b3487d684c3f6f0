// Package adminhttp is the operator's side of a daemon over HTTP: its health, the administration of
// queues behind an admin token, and a client for all of it.
//
// What is served:
//
//	GET    /livez                               "ok" while the process lives
//	GET    /readyz                              200, or 503 with the checks that fail
//	GET    /openapi.yaml                        this API and the queue protocol, as OpenAPI 3.1
//	GET    /v1/queues                           {"queues":[{"id","ok","error"?}]}
//	GET    /v1/queues/<id>                      {"id","ok","error"?}
//	PUT    /v1/queues/<id>                      creates it: 201, or 409 if there is one
//	POST   /v1/queues/<id>                      the queue protocol, with the queue's own token
//	DELETE /v1/queues/<id>                      removes it with its messages: 204
//	POST   /v1/queues/<id>/token                {overlapSeconds?}: a new token, as a binding
//	GET    /v1/queues/<id>/binding              {"service","endpoint","token"}
//	GET    /v1/queues/<id>/stats                the counts, as the queue protocol has them
//	DELETE /v1/queues/<id>/undecodable/<row>    removes a row that cannot be decoded: 204
//
// The first three need no token and tell no secret. All others, the queue protocol aside, want the
// admin token, and find it missing or wrong (401) before they look at anything else. Errors are those
// of the queue protocol: {code, message, retryable, httpStatusCode, context?}. Names are exact, an
// unknown member is 400, an unknown method 405 with Allow.
//
// The queues, the queue protocol's handler and the checks are handed in; how a daemon is run is left
// to others.
package adminhttp
