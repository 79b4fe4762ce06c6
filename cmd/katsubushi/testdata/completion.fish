# fish completion of katsubushi; put it into ~/.config/fish/completions/katsubushi.fish
complete -c katsubushi -n __fish_use_subcommand -a check-config -d 'say everything that is wrong with the settings, and do not serve'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o admin-bind
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o admin-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o advertise
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o announce
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o auth-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o bind
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o claim
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o config
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o counters
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o counters-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o datacenter-id
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o debug-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o drain-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o enable-pprof
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o enable-stats
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o engine
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o epoch
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o forward-ca
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o forward-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o forward-user
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o generator
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o generators
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o grpc-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o heartbeat
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o hold-raus
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o http-bind
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o http-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o idle-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o lanes
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o layout
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o lease
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o lease-auto-init
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o log-format
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o log-level
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o loops
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-buffer-memory
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-connections
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-run-ahead
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-skew
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-wait
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o min-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o peer-check
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis-allow-eviction
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis-replicas
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o sequence-start
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o shutdown-delay
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o sock
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o sock-mode
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o state-any-disk
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o state-dir
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store-ca
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store-cert
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store-key
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o tls-cert
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o tls-client-ca
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o tls-key
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o udp-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o unknown-keys
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o users
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o version
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o worker-bits
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o worker-id
complete -c katsubushi -n __fish_use_subcommand -a inspect -d 'take ids apart'
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o epoch
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o json
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o layout
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o worker-bits
complete -c katsubushi -n __fish_use_subcommand -a healthcheck -d 'ask the daemon on this host whether it lives (or issues ids)'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o admin-bind
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o admin-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o advertise
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o announce
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o auth-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o bind
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o claim
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o config
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o counters
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o counters-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o datacenter-id
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o debug-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o drain-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o enable-pprof
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o enable-stats
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o engine
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o epoch
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o forward-ca
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o forward-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o forward-user
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o generator
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o generators
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o grpc-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o heartbeat
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o hold-raus
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o http-bind
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o http-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o idle-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o lanes
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o layout
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o lease
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o lease-auto-init
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o log-format
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o log-level
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o loops
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-buffer-memory
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-connections
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-run-ahead
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-skew
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-wait
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o min-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o peer-check
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o ready
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis-allow-eviction
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis-replicas
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o sequence-start
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o shutdown-delay
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o sock
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o sock-mode
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o state-any-disk
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o state-dir
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store-ca
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store-cert
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store-key
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o tls-cert
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o tls-client-ca
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o tls-key
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o udp-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o unknown-keys
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o users
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o worker-bits
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o worker-id
complete -c katsubushi -n __fish_use_subcommand -a state -d 'inspect and repair the files that record windows'
complete -c katsubushi -n '__fish_seen_subcommand_from state' -a 'show adopt reset'
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o bind
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o claim
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o config
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o force
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o http-port
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o json
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o mark
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o port
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o redis
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o state-any-disk
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o state-dir
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o store
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o worker-id
complete -c katsubushi -n __fish_use_subcommand -a lease -d 'inspect and repair a pool of worker ids in a store'
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -a 'init list stats release replicas restored reset-clock'
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o all
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o config
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o datacenter-id
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o epoch
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o how
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o json
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o layout
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o lease
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o max-run-ahead
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o max-skew
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o max-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o min-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o redis
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o redis-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o sequence-start
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store-ca
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store-cert
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store-key
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o worker-bits
complete -c katsubushi -n __fish_use_subcommand -a generator -d 'sequences'
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -a 'create list show raise adopt replicas retire'
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o advertise
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o counters
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o counters-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o force
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o forward-ca
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o forward-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o forward-user
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o generator
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o generators
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o json
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o max-wait
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o state-dir
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o unknown-keys
complete -c katsubushi -n __fish_use_subcommand -a user -d 'who may log in'
complete -c katsubushi -n '__fish_seen_subcommand_from user' -a 'add password token grant revoke remove list'
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o auth-file
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o counters
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o counters-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o force
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o generate
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o json
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o password-file
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o tls-cert
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o tls-client-ca
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o tls-key
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o users
complete -c katsubushi -n __fish_use_subcommand -a demote -d 'sequences in strict order: have them led by another daemon'
complete -c katsubushi -n '__fish_seen_subcommand_from demote' -o counters
complete -c katsubushi -n '__fish_seen_subcommand_from demote' -o counters-password-file
complete -c katsubushi -n __fish_use_subcommand -a upgrade -d 'replace a running daemon by the program that is installed now, without a gap'
complete -c katsubushi -n '__fish_seen_subcommand_from upgrade' -o pid
complete -c katsubushi -n '__fish_seen_subcommand_from upgrade' -o timeout
complete -c katsubushi -n __fish_use_subcommand -a run -d 'lease a worker id for another program, and run it'
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o config
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o delay
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o epoch
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o expire
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o heartbeat
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o hold-raus
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o interval
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o layout
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o lease
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o lease-auto-init
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o log-format
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o log-level
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o margin
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o max
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o max-skew
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o max-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o min
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o min-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o redis
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o redis-allow-eviction
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o redis-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o redis-replicas
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o replacement
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o server
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o stop-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store-ca
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store-cert
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store-key
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o worker-bits
complete -c katsubushi -n __fish_use_subcommand -a completion -d 'print the shell\'s completion of this program'
complete -c katsubushi -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
complete -c katsubushi -n __fish_use_subcommand -a man -d 'print the manual page'
complete -c katsubushi -n __fish_use_subcommand -a version -d 'print what -version prints'
complete -c katsubushi -n __fish_use_subcommand -a help -d 'print this, or what a verb does'
complete -c katsubushi -n '__fish_seen_subcommand_from help' -o list
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o admin-bind
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o admin-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o advertise
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o announce
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o auth-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o bind
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o claim
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o config
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o counters
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o counters-password-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o datacenter-id
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o debug-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o drain-timeout
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o enable-pprof
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o enable-stats
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o engine
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o epoch
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o forward-ca
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o forward-password-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o forward-user
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o generator
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o generators
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o grpc-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o heartbeat
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o hold-raus
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o http-bind
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o http-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o idle-timeout
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o lanes
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o layout
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o lease
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o lease-auto-init
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o log-format
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o log-level
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o loops
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o max-buffer-memory
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o max-connections
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o max-run-ahead
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o max-skew
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o max-wait
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o max-worker-id
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o min-worker-id
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o peer-check
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o redis
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o redis-allow-eviction
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o redis-password-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o redis-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o redis-replicas
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o sequence-bits
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o sequence-start
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o shutdown-delay
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o sock
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o sock-mode
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o state-any-disk
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o state-dir
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o store
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o store-ca
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o store-cert
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o store-key
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o store-password-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o time-unit
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o tls-cert
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o tls-client-ca
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o tls-key
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o udp-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o unknown-keys
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o users
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o version
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o worker-bits
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config inspect healthcheck state lease generator user demote upgrade run completion man version help' -o worker-id
