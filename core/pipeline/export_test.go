package pipeline

// Places is how many pipelines an engine has in memory.
func Places(e *Engine) int { return len(e.sorted()) }
