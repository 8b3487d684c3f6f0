package queuehttp

import (
	"log/slog"
	"net/http"
	"time"
)

// NewServer makes a server that suits the protocol: the head of a request has to arrive within 10
// seconds and 32 KiB, idle connections are closed after two minutes, later than a client of this
// package gives them up. It sets no timeout on answers, which would cut off a receive that waits;
// the handler has its own deadlines for bodies and answers.
//
// To stop: close the owner first, which wakes those who wait and lets running operations finish;
// then call Shutdown, which lets the answers out.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	if log != nil {
		server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	}
	return server
}
