package config

import "strconv"

// home is where a key belongs, in a file and in the JSON of a pipeline.
type home struct{ file, json string }

var (
	ofPipeline = home{"in a [[pipeline]], above its first [[pipeline.monitor]] and [[pipeline.sink]]", "at the top"}
	ofMonitor  = home{"in a [[pipeline.monitor]]", "in an object of the array monitor"}
	ofGate     = home{"in the gate of a [[pipeline.monitor]]", "in the gate of a monitor"}
	ofRetry    = home{"in the retry of a [[pipeline.sink]]", "in the retry of a sink"}
	atTheTop   = home{file: "at the top"}
)

var homes = map[string]home{
	"state_dir":  {file: "at the top, before the first [table]"},
	"listen":     {file: "in [http]"},
	"module":     {"in [storage], [kv.NAME], [queue.NAME], [[pipeline.sink]] or the source of a [[pipeline]]", "in source and in the objects of the array sink"},
	"config":     {file: "in [storage], [kv.NAME] or [queue.NAME]; the keys of a source's or sink's module stand beside module"},
	"http":       atTheTop,
	"storage":    atTheTop,
	"kv":         atTheTop,
	"queue":      atTheTop,
	"pipeline":   atTheTop,
	"source":     ofPipeline,
	"event_time": ofPipeline,
	"fields":     ofPipeline,
	"monitor":    {"in a [[pipeline]]", "at the top"},
	"sink":       {"in a [[pipeline]]", "at the top"},
	"when":       ofMonitor,
	"gate":       ofMonitor,
	"sinks":      ofMonitor,
	"threshold":  ofGate,
	"window":     ofGate,
	"cooldown":   ofGate,
	"key":        ofGate,
	"retry":      {"in a [[pipeline.sink]]", "in an object of the array sink"},
	"attempts":   ofRetry,
	"min":        ofRetry,
	"max":        ofRetry,
}

// hint says where a key that stands in the wrong place belongs.
func (d *document) hint(at path, name string, value any) string {
	if d.json {
		switch belongs := homes[name].json; {
		case len(at) == 0 && name == "id":
			return "; the id of the resource is that of the pipeline"
		case belongs != "" && !belowModule(at):
			return "; " + name + " belongs " + belongs
		}
		return ""
	}
	_, isTable := value.(map[string]any)
	inStore := len(at) == 2 && (at[0] == "kv" || at[0] == "queue")
	inStorage := len(at) == 1 && at[0] == "storage"
	belongs := homes[name].file
	inModule := len(at) > 2
	if len(at) > 2 && at[0] == "pipeline" {
		inModule = belowModule(at[2:])
	}
	switch {
	case inStore && isTable:
		return "; a name with a dot in it is quoted, [" + at[0] + "." + strconv.Quote(at[1]+"."+name) + "]"
	case (inStore || inStorage) && belongs == "":
		return "; the keys of a module stand in [" + at.child("config").String() + "]"
	case belongs != "" && !inModule:
		return "; " + name + " belongs " + belongs
	}
	return ""
}

// belowModule reports whether a table of a pipeline lies deeper than the keys of a source or sink: how
// it is built is the affair of the module.
func belowModule(at path) bool {
	switch {
	case len(at) > 1 && at[0] == "source":
		return true
	case len(at) > 2 && at[0] == "sink":
		return at[2] != "retry"
	}
	return false
}
