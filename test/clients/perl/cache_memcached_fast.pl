use strict;
use warnings;
use Cache::Memcached::Fast;

my ($host, $port) = @ARGV;
my $client = Cache::Memcached::Fast->new({ servers => ["$host:$port"] });
print "get ", $client->get('id'), "\n" for 1 .. 5;
print "multi @{[ values %{ $client->get_multi('a', 'b', 'c') } ]}\n";
my ($cas, $value) = @{ $client->gets('id') };
print "gets $value $cas\n";
print "version ", $client->server_versions->{"$host:$port"}, "\n";
print "get ", $client->get('id'), "\n";
