# raw: ids are plain decimals, not marshalled Ruby objects.
require 'dalli'

Dalli.logger.level = Logger::WARN # it tells standard output that it logs in
host, port, username, password = ARGV
client = Dalli::Client.new("#{host}:#{port}", { raw: true, username: username, password: password }.compact)
5.times { puts "get #{client.get('id')}" }
puts "multi #{client.get_multi('a', 'b', 'c').values.join(' ')}"
puts "version #{client.version.values.first}"
client.stats.values.first.each { |name, value| puts "stat #{name} #{value}" }
puts "group settings #{client.stats(:settings).values.first.size}"
puts "get #{client.get('id')}"
client.close
