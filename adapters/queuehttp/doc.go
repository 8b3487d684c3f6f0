// Package queuehttp is the queue protocol: a handler that serves the queues of a [ports.QueueOwner]
// over HTTP, and a client that is a [ports.Queue].
//
// # Protocol
//
// A request is POST /v1/queues/<id> with a bearer token, the content type application/json, and an
// object whose member "operation" selects what is done:
//
//	operation         members                                    answer
//	send              message, delaySeconds?                     {}
//	sendBatch         messages                                   {results: [{status, code?, message?, context?}]}
//	receive           maxMessages?, leaseSeconds?, waitSeconds?  {messages: [{payload, receiptHandle, attempt, enqueuedAt}]}
//	ack               receiptHandle                              {}
//	ackBatch          receiptHandles                             {results: [{status, code?, message?, context?}]}
//	nack              receiptHandle, delaySeconds?               {}
//	renew             receiptHandle, leaseSeconds?               {}
//	purge                                                        {}
//	stats                                                        {total, visible, inFlight, delayed, undecodable, oldestAgeMillis}
//	peek              maxMessages?                               {messages: [{id, payload?, state, attempt, enqueuedAt, visibleAt}]}
//
// A message and a payload are {"type":"json","data":<any JSON>} or {"type":"text","data":"…"}. The
// data of a json payload is what was sent, byte for byte, without insignificant white space.
// Durations are numbers of seconds with up to three decimals. Times are integers, milliseconds since
// 1970 in UTC. maxMessages is 1 unless given, 10 for peek. The status of a result is sent or acked,
// rejected, or unknown.
//
// Names are exact: an unknown member, one in another case, one that stands twice, anywhere in the
// request, and anything after the object is 400 without effect. A message of a batch that breaks a
// rule of payloads (its type, its size) is rejected alone.
//
// An answer is 200, or an error: {code, message, retryable, httpStatusCode, context?}. What is wrong
// is found in this order: the path (404), the method (405 with Allow), the token (401, the same for
// a wrong token and for an unknown queue), the content type (415), the size (413), the time it took
// to arrive (408), the content (400). A body is not read before the token has been found good. 503
// means that the owner is closing or, with the reason busy, that four large requests of the queue,
// above 128 KiB or of unknown length, and peeks are at work and none of them came to an end. What is
// no HTTP/1 request, or has a head above 32 KiB, is answered by the server below, in plain text.
//
// # Promises
//
// The handler releases what it has claimed for a receiver that is gone before its answer was
// written, and claims nothing for one that leaves while it waits.
//
// The client sends exactly one request for each call and never repeats one. What never left the
// machine is an error with [ports.ReasonUnavailable]; whatever fails later is
// [ports.ErrOutcomeUnknown], and every message or receipt of a batch is then unknown. Input is
// checked before anything is sent.
//
// Queues, their files, their tokens and how a daemon is run are left to others.
package queuehttp
