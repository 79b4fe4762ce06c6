package server

func makers() []maker {
	return []maker{{"net", makeNet}, {"epoll", func(c Config) Engine { return NewEpoll(c) }}}
}
