// Package webhook delivers events by HTTP: a sink that POSTs signed JSON, and what a receiver checks it
// with.
//
// # Request
//
// A delivery is one POST whose body is the event, as JSON in UTF-8:
//
//	{"type":"match","timestamp":"2026-03-01T12:00:01.000Z","data":{…}}
//
// The type is match or emission, the data is what [types.Match] and [types.Emission] have for JSON, and
// the timestamp is the time of the event. The headers follow the Standard Webhooks convention:
//
//	webhook-id         the match id: the same at each delivery of a match, for receivers that drop doubles
//	webhook-timestamp  when the request was made, in seconds since the epoch
//	webhook-signature  for each secret, "v1," and the base64 of the HMAC-SHA256 of
//	                   <webhook-id>.<webhook-timestamp>.<body>; without a secret there is none
//	traceparent        the W3C trace context of the delivery, if it is traced
//
// # Answers
//
// 2xx means that the receiver has the event for good. 408, 409, 425, 429 and 5xx are transient: the event
// is delivered again later, no earlier than a Retry-After asks for, at most an hour. All others are
// permanent. 307 and 308 are followed on the same scheme, host and port; every other redirect is
// permanent, since a POST would become a GET, or go where the configuration did not say.
//
// A connection that fails is transient. So is a certificate that does not verify: it is renewed on the
// receiver's side, and nothing has to be changed here for it.
//
// # Promises
//
// One call of Deliver is one request, redirects aside: nothing below repeats it. A request that may have
// arrived is OUTCOME_UNKNOWN, one that cannot have is unavailable. The address that a name resolves to is
// checked as it is connected to, so that no answer of a name server leads into the own network, unless
// that is allowed. Proxies of the environment are not used, because behind one nothing of that would hold.
// An error names the host and the path, never a query, a header, a secret, or anything of a body.
//
// When to deliver again, and for how long, is left to whoever calls the sink. A receiver's server, its
// deadlines and its TLS are left to whoever runs it.
package webhook
