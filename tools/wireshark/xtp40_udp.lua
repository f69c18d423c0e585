-- Hands XTP 4.0 in UDP datagrams (specs/xtp.md, section 1) to Wireshark's own dissector, which by itself is asked for IP
-- protocol 36 only. The fields are that dissector's: xtp.key, xtp.seq ...

local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or ""
local common = dofile(here .. "common.lua")
if not common.first_time("xtp40_udp") then return end

local xtp40 = Proto("xtp40_udp", "XTP 4.0 over UDP")
-- It has no name to be found by, and whoever has "Decode As" later may put another in its place: so now, and from there.
local xtp = DissectorTable.get("ip.proto"):get_dissector(36)

local HEADER = 32
local TYPES = { [0] = true, [1] = true, [2] = true, [3] = true, [5] = true, [7] = true, [8] = true }

-- The Internet sum, one's complement, of bytes whose checksum is right is 0xffff.
local function is_sum_right(bytes)
  local sum = 0
  for at = 1, #bytes, 2 do
    local high, low = bytes:byte(at, at + 1)
    sum = sum + 256 * high + (low or 0)
  end
  while sum > 0xffff do sum = sum % 65536 + math.floor(sum / 65536) end
  return sum == 0xffff
end

function xtp40.dissector(tvb, pinfo, tree)
  xtp:call(tvb, pinfo, tree)
end

common.on_udp(xtp40, function(tvb)
  local size = tvb:len()
  if size < HEADER then return false end
  local options, kind = tvb(8, 3):uint(), tvb(11, 1):uint()
  if math.floor(kind / 32) ~= 1 or not TYPES[kind % 32] then return false end
  if options >= 0x800000 or options % 256 ~= 0 or tvb(12, 4):uint() ~= size - HEADER then return false end
  return is_sum_right(tvb:raw(0, common.has_bit(options, 22) and HEADER or size))
end)
