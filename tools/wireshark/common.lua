-- What the dissectors of this directory share: each loads it with dofile, so that each also works alone.
-- Wireshark loads every .lua file of a plugin directory, this one too; it then does nothing.

local common = {}

local loaded = package.loaded

-- True the first time it is asked for a name: pinnace.lua may load a file that Wireshark has loaded by itself.
function common.first_time(name)
  local key = "pinnace-dissector-" .. name
  if loaded[key] then return false end
  loaded[key] = true
  return true
end

-- bit32 went away with Lua 5.2; the operator would not parse before 5.3.
common.bxor = bit32 and bit32.bxor or bit and bit.bxor or load("return function(a, b) return a ~ b end")()

-- Bit number `n`, from 0, of a number.
function common.has_bit(value, n)
  return math.floor(value / 2 ^ n) % 2 == 1
end

-- The status of a checksum, in Wireshark's own numbers.
common.BAD, common.GOOD, common.UNVERIFIED = 0, 1, 2
common.STATUS = { [0] = "Bad", [1] = "Good", [2] = "Unverified" }

-- The Info column of a packet: items joined, and cut when they are too many to read.
function common.join(items, most)
  most = most or 12
  if #items <= most then return table.concat(items, ", ") end
  return table.concat(items, ", ", 1, most) .. ", and " .. (#items - most) .. " more"
end

function common.plural(count, word)
  return count .. " " .. word .. (count == 1 and "" or "s")
end

-- Puts a protocol into the table of UDP ports, with a preference for ports that are always its own, and `heuristic` behind
-- a second preference. `heuristic(tvb)` says whether a datagram is certainly one that begins a conversation; what follows
-- between the same two ports is then taken for the same.
function common.on_udp(proto, heuristic)
  local udp = DissectorTable.get("udp.port")
  local ports = ""
  proto.prefs.udp_ports = Pref.range("UDP ports", "", "Ports that always carry this protocol, such as 7001,7100-7199", 65535)
  proto.prefs.guess = Pref.bool("Recognise conversations", true, "Look for its opening datagrams on every other UDP port")
  udp:add_for_decode_as(proto)
  function proto.prefs_changed()
    local wanted = tostring(proto.prefs.udp_ports or "")
    if wanted == ports then return end
    if ports ~= "" then udp:remove(ports, proto) end
    if wanted ~= "" then udp:add(wanted, proto) end
    ports = wanted
  end
  proto:register_heuristic("udp", function(tvb, pinfo, tree)
    -- What the capture cut short cannot be recognised with certainty.
    if not proto.prefs.guess or tvb:len() < tvb:reported_len() or not heuristic(tvb) then return false end
    pinfo.conversation = proto
    proto.dissector(tvb, pinfo, tree)
    return true
  end)
end

-- The experts that every protocol has, and how to raise them.
function common.experts(name)
  local group, severity = expert.group, expert.severity
  local experts = {
    malformed = ProtoExpert.new(name .. ".malformed", "Does not parse", group.MALFORMED, severity.ERROR),
    cut = ProtoExpert.new(name .. ".cut", "Cut by the capture", group.UNDECODED, severity.NOTE),
  }
  local raise = {}
  -- The datagram does not parse: an endpoint drops it.
  function raise.malformed(pinfo, tree, why)
    tree:add_proto_expert_info(experts.malformed, "Does not parse: " .. why)
    pinfo.cols.info:append(" [does not parse: " .. why .. "]")
  end
  -- The capture kept too little of the datagram to say more.
  function raise.cut(pinfo, tree)
    tree:add_proto_expert_info(experts.cut, "Cut by the capture")
    pinfo.cols.info:append(" [cut by the capture]")
  end
  -- The tree of a datagram that has a header of so many bytes; of another there is none, and it is said why.
  function raise.unless_headed(proto, header, tvb, pinfo, root)
    local size, have = tvb:reported_len(), tvb:len()
    local tree = have > 0 and root:add(proto, tvb()) or root:add(proto)
    if have >= header then return tree end
    pinfo.cols.info:set(common.plural(size, "byte"))
    if have < size then raise.cut(pinfo, tree) else raise.malformed(pinfo, tree, "shorter than a header") end
  end
  return experts, raise
end

return common
