# Runs a recipe: driver.rb FILE. Each line of the input is "insert N" or "bulk N".
require ARGV.fetch(0)
$stdout.sync = true
$stdin.each_line do |line|
  what, n = line.split
  last = ""
  if what == "bulk"
    create_many(["tea"] * n.to_i)
  else
    n.to_i.times { last = create("tea") }
  end
  puts "done #{last}"
rescue StandardError => e
  puts "error #{e.class} #{e.message.split.join(" ")}"
end
