use strict;
use warnings;
use Cache::Memcached;

my ($host, $port) = @ARGV;
my $client = Cache::Memcached->new({ servers => ["$host:$port"] });
print "get ", $client->get('id'), "\n" for 1 .. 5;
print "multi @{[ values %{ $client->get_multi('a', 'b', 'c') } ]}\n";
my $stats = $client->stats('misc')->{hosts}{"$host:$port"}{misc};
print "version $stats->{version}\n";
print "stat $_ $stats->{$_}\n" for keys %$stats;
print "get ", $client->get('id'), "\n";
