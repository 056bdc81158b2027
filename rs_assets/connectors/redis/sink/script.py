"""The script that writes staged rows and the ledger in one step, or does nothing if the ledger has changed.

A staged chunk is a text: the keys to remove and the rows, as JSON. A row is its key, followed by its values: texts,
null, or bytes as a list with their hexadecimal digits.
"""

from __future__ import annotations

from typing import Final

# What the script answers if it has done nothing.
CHANGED: Final = -1
LOST: Final = -2

# KEYS: the marks, the claim, and the chunk if there is one. ARGV: the version of the marks and the number of the claim
# that the driver has checked, the order as JSON, and the names of the fields.
STEP: Final = """
local version = redis.call('HGET', KEYS[1], 'version') or '0'
local claim = redis.call('HGET', KEYS[2], 'claim') or '0'
if version ~= ARGV[1] or claim ~= ARGV[2] then return -1 end
local order = cjson.decode(ARGV[3])

for _, chunk in ipairs(order.keep) do
  if redis.call('EXISTS', chunk) == 0 then return -2 end
end
for _, chunk in ipairs(order.keep) do redis.call('PERSIST', chunk) end

local call, names, count = redis.call, {unpack(ARGV, 4)}, #ARGV - 3

local function plain(value)
  if type(value) ~= 'table' then return value end
  return (string.gsub(value[1], '..', function(digits) return string.char(tonumber(digits, 16)) end))
end

local function fields_of(row)
  local found, last = {}, 0
  for n = 1, count do
    local value = row[n + 1]
    if value ~= cjson.null then
      found[last + 1], found[last + 2] = names[n], plain(value)
      last = last + 2
    end
  end
  if last == 0 then return {names[1], ''} end
  return found
end

local function expire(key)
  if order.ttl > 0 then call('PEXPIRE', key, order.ttl) end
end

local put = {}
function put.hash(row)
  call('UNLINK', row[1])
  call('HSET', row[1], unpack(fields_of(row)))
  expire(row[1])
end
function put.string(row)
  if row[2] == cjson.null then return call('UNLINK', row[1]) end
  call('SET', row[1], plain(row[2]))
  expire(row[1])
end
function put.stream(row)
  call('XADD', row[1], '*', unpack(fields_of(row)))
end

if KEYS[3] then
  local text = call('GET', KEYS[3])
  if not text then return -2 end
  local chunk = cjson.decode(text)
  local write, kinds = put[order.structure], {}
  for _, row in ipairs(order.structure == 'stream' and chunk.rows or {}) do
    local key = row[1]
    if not kinds[key] then
      kinds[key] = call('TYPE', key).ok
      if kinds[key] ~= 'none' and kinds[key] ~= 'stream' then
        return redis.error_reply('WRONGTYPE the key ' .. key .. ' is a ' .. kinds[key] .. ', not a stream')
      end
    end
  end
  for _, key in ipairs(chunk.gone) do call('UNLINK', key) end
  for _, row in ipairs(chunk.rows) do write(row) end
  call('UNLINK', KEYS[3])
end

if #order.drop > 0 then redis.call('HDEL', KEYS[1], unpack(order.drop)) end
if #order.note > 0 then redis.call('HSET', KEYS[1], unpack(order.note)) end
if #order.claim > 0 then redis.call('HSET', KEYS[2], unpack(order.claim)) end
return redis.call('HINCRBY', KEYS[1], 'version', 1)
"""
