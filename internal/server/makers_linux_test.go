package server

func makers() []maker { return []maker{{"net", makeNet}} }
