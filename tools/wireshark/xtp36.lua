-- Wireshark dissector for Pinnace's reconstruction of XTP revision 3.6 (specs/xtp.md, sections 2 and 6), over UDP or,
-- chosen by "Decode As", over IP protocol 36.

local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or ""
local common = dofile(here .. "common.lua")
if not common.first_time("xtp36") then return end

local xtp = Proto("xtp36", "Xpress Transport Protocol 3.6 (reconstruction)")
local experts, raise = common.experts("xtp36")
local CHECKSUM, ERROR = expert.group.CHECKSUM, expert.severity.ERROR
experts.bad_hcheck = ProtoExpert.new("xtp36.hcheck.bad", "The checksum of the header is wrong", CHECKSUM, ERROR)
experts.bad_dcheck = ProtoExpert.new("xtp36.dcheck.bad", "The checksum of the data is wrong", CHECKSUM, ERROR)
experts.bad_spans = ProtoExpert.new("xtp36.spans.bad", "Spans must rise, be apart, and not be empty", expert.group.PROTOCOL, expert.severity.WARN)

local HEADER, CONTROL, TRAILER = 40, 48, 4
local DATA, CNTL, FIRST, DIAG = 0x20, 0x21, 0x22, 0x28
local TYPES = { [DATA] = "DATA", [CNTL] = "CNTL", [FIRST] = "FIRST", [DIAG] = "DIAG" }
local SERVICES = {
  [1] = "Unacknowledged datagram", [2] = "Acknowledged datagram", [3] = "Transaction", [4] = "Reliable unicast stream",
  [5] = "Unacknowledged multicast stream", [6] = "Reliable multicast stream",
}
local CODES = {
  [1] = "Context refused", [2] = "Context abandoned", [3] = "Invalid context", [4] = "Request refused", [5] = "Join refused",
  [6] = "Protocol error", [7] = "Maximum packet size error",
}
local VALUES = {
  [0] = "Unspecified", [1] = "No listener", [2] = "Options refused", [3] = "Address format not supported", [4] = "Malformed address",
  [5] = "Traffic format not supported", [6] = "Traffic refused", [7] = "Malformed traffic", [8] = "No provider", [9] = "No resource",
  [10] = "Host going down", [11] = "Invalid retransmission request", [12] = "Context in improper state", [13] = "Join denied",
}
-- From bit 14 down.
local OPTIONS = {
  "NOCHECK", "EDGE", "NOERR", "MULTI", "RES", "SORT", "NOFLOW", "FASTNAK", "SREQ", "DREQ", "RCLOSE", "WCLOSE", "EOM", "END", "BTAG",
}

local f = {
  options = ProtoField.uint16("xtp36.options", "Options", base.HEX),
  offset = ProtoField.uint8("xtp36.offset", "Offset"),
  type = ProtoField.uint8("xtp36.type", "Type", base.HEX, TYPES),
  key = ProtoField.uint32("xtp36.key", "Key", base.HEX),
  sort = ProtoField.uint32("xtp36.sort", "Sort"),
  sync = ProtoField.uint32("xtp36.sync", "Sync"),
  seq = ProtoField.uint32("xtp36.seq", "Sequence number"),
  route = ProtoField.uint32("xtp36.route", "Route"),
  dlen = ProtoField.uint32("xtp36.dlen", "Data length"),
  dseq = ProtoField.uint32("xtp36.dseq", "Delivered sequence number"),
  ttl = ProtoField.uint16("xtp36.ttl", "Time to live"),
  reserved = ProtoField.uint16("xtp36.reserved", "Reserved"),
  hcheck = ProtoField.uint32("xtp36.hcheck", "Header checksum", base.HEX),
  hcheck_status = ProtoField.uint8("xtp36.hcheck.status", "Status", base.DEC, common.STATUS),
  dcheck = ProtoField.uint32("xtp36.dcheck", "Data checksum", base.HEX),
  dcheck_status = ProtoField.uint8("xtp36.dcheck.status", "Status", base.DEC, common.STATUS),
  padding = ProtoField.bytes("xtp36.padding", "Padding"),
  alen = ProtoField.uint16("xtp36.address.length", "Length"),
  service = ProtoField.uint8("xtp36.service", "Service", base.DEC, SERVICES),
  aformat = ProtoField.uint8("xtp36.address.format", "Format", base.DEC, { [1] = "IPv4", [6] = "IPv6" }),
  dst = ProtoField.ipv4("xtp36.dst", "Destination"),
  src = ProtoField.ipv4("xtp36.src", "Source"),
  dst6 = ProtoField.ipv6("xtp36.dst6", "Destination"),
  src6 = ProtoField.ipv6("xtp36.src6", "Source"),
  dstport = ProtoField.uint16("xtp36.dstport", "Destination port"),
  srcport = ProtoField.uint16("xtp36.srcport", "Source port"),
  address = ProtoField.none("xtp36.address", "Address segment"),
  btag = ProtoField.uint64("xtp36.btag", "Beginning tag", base.HEX),
  data = ProtoField.bytes("xtp36.data", "Data"),
  rate = ProtoField.uint32("xtp36.rate", "Rate, bytes a second"),
  burst = ProtoField.uint32("xtp36.burst", "Burst, bytes"),
  echo = ProtoField.uint32("xtp36.echo", "Echo"),
  time = ProtoField.uint32("xtp36.time", "Time, units of 20 ms"),
  techo = ProtoField.uint32("xtp36.techo", "Time echoed, units of 20 ms"),
  xkey = ProtoField.uint32("xtp36.xkey", "Exchange key", base.HEX),
  xroute = ProtoField.uint32("xtp36.xroute", "Exchange route"),
  alloc = ProtoField.uint32("xtp36.alloc", "Allocation (exclusive)"),
  rseq = ProtoField.uint32("xtp36.rseq", "Received up to (exclusive)"),
  hseq = ProtoField.uint32("xtp36.hseq", "Highest received (exclusive)"),
  nspan = ProtoField.uint32("xtp36.nspan", "Spans"),
  reserved32 = ProtoField.uint32("xtp36.cntl.reserved", "Reserved"),
  span = ProtoField.none("xtp36.span", "Span"),
  low = ProtoField.uint32("xtp36.span.low", "Low"),
  high = ProtoField.uint32("xtp36.span.high", "High (exclusive)"),
  code = ProtoField.uint32("xtp36.diag.code", "Code", base.DEC, CODES),
  value = ProtoField.uint32("xtp36.diag.value", "Value", base.DEC, VALUES),
  text = ProtoField.string("xtp36.diag.text", "Text"),
}
-- A key and an exchange key are split in the same way.
local function key_fields(name)
  return {
    f[name],
    ProtoField.bool("xtp36." .. name .. ".rtn", "RTN", 32, nil, 0x80000000),
    ProtoField.uint32("xtp36." .. name .. ".instance", "Instance", base.DEC, nil, 0x7ff00000),
    ProtoField.uint32("xtp36." .. name .. ".slot", "Slot", base.DEC, nil, 0x000fff00),
    ProtoField.uint32("xtp36." .. name .. ".context", "Context in the slot", base.DEC, nil, 0x000000ff),
  }
end
local KEY, XKEY = key_fields("key"), key_fields("xkey")
local all = {}
for _, field in pairs(f) do all[#all + 1] = field end
for _, split in ipairs({ KEY, XKEY }) do
  for i = 2, #split do all[#all + 1] = split[i] end
end
local OPTION_FIELDS = {}
for i, name in ipairs(OPTIONS) do
  OPTION_FIELDS[i] = ProtoField.bool("xtp36.options." .. name:lower(), name, 16, nil, 2 ^ (15 - i))
  all[#all + 1] = OPTION_FIELDS[i]
end
xtp.fields = all
xtp.experts = experts

-- CXOR (section 6): the exclusive or of the 16-bit words, and the same with a rotation before each word.
local function cxor(bytes)
  local bxor = common.bxor
  local plain, rotated = 0, 0
  for at = 1, #bytes, 2 do
    local high, low = bytes:byte(at, at + 1)
    local word = 256 * high + (low or 0)
    plain = bxor(plain, word)
    if rotated >= 32768 then rotated = 2 * rotated - 65535 else rotated = 2 * rotated end
    rotated = bxor(rotated, word)
  end
  return plain * 65536 + rotated
end

local function raw(tvb, at, length)
  return length > 0 and tvb:raw(at, length) or ""
end

local function add_key(tree, fields, range)
  local subtree = tree:add(fields[1], range)
  for i = 2, #fields do subtree:add(fields[i], range) end
end

local function add_check(tree, field, status_field, bad, range, wanted)
  local item = tree:add(field, range)
  local status = common.UNVERIFIED
  if wanted then status = range:uint() == wanted and common.GOOD or common.BAD end
  if status == common.BAD then
    item:append_text(string.format(" [incorrect, should be 0x%08x]", wanted))
    item:add_proto_expert_info(bad)
  else
    item:append_text(status == common.GOOD and " [correct]" or " [unverified]")
  end
  item:add(status_field, range, status):set_generated()
  return status
end

local function option_names(options)
  local names = {}
  for i, name in ipairs(OPTIONS) do
    if common.has_bit(options, 15 - i) then names[#names + 1] = name end
  end
  return table.concat(names, " ")
end

local function dissect_header(tvb, tree)
  local options = tvb(0, 2):uint()
  local names = option_names(options)
  local subtree = tree:add(f.options, tvb(0, 2))
  if names ~= "" then subtree:append_text(" [" .. names .. "]") end
  for _, field in ipairs(OPTION_FIELDS) do subtree:add(field, tvb(0, 2)) end
  tree:add(f.offset, tvb(2, 1))
  tree:add(f.type, tvb(3, 1))
  add_key(tree, KEY, tvb(4, 4))
  tree:add(f.sort, tvb(8, 4))
  tree:add(f.sync, tvb(12, 4))
  tree:add(f.seq, tvb(16, 4))
  tree:add(f.route, tvb(20, 4))
  tree:add(f.dlen, tvb(24, 4))
  tree:add(f.dseq, tvb(28, 4))
  tree:add(f.ttl, tvb(32, 2))
  tree:add(f.reserved, tvb(34, 2))
  return add_check(tree, f.hcheck, f.hcheck_status, experts.bad_hcheck, tvb(36, 4), cxor(raw(tvb, 0, 36)))
end

-- Why the header does not parse, or nil.
local function fault_of_header(tvb)
  local options, kind = tvb(0, 2):uint(), tvb(3, 1):uint()
  if math.floor(kind / 32) ~= 1 then return "unknown version" end
  if not TYPES[kind] then return "unknown type" end
  if options >= 0x8000 then return "an undefined option" end
  if common.has_bit(options, 11) then return "MULTI, which this codec does not have" end
  if tvb(2, 1):uint() ~= 0 or tvb(20, 4):uint() ~= 0 or tvb(32, 4):uint() ~= 0 then return "a reserved field that is not 0" end
  if tvb(4, 4):uint() % 2 ^ 31 == 0 then return "a key of 0" end
  if tvb(8, 4):uint() ~= 0 and not common.has_bit(options, 9) then return "a sort without SORT" end
  return nil
end

-- The segments. Each is given its place and the bytes up to the trailer, padding among them, of which the capture may
-- have kept fewer; it returns the bytes it has by its own account, or nil and why it does not parse, or nil alone where
-- the capture ends.

local function dissect_address(tvb, tree, at, room, have)
  if room < 4 then return nil, "the end inside the address segment" end
  if have < 4 then return nil end
  local alen, format = tvb(at, 2):uint(), tvb(at + 3, 1):uint()
  local width = format == 1 and 4 or format == 6 and 16 or nil
  local subtree = tree:add(f.address, tvb(at, math.min(alen > 4 and alen or 4, room, have)))
  subtree:add(f.alen, tvb(at, 2))
  subtree:add(f.service, tvb(at + 2, 1))
  subtree:add(f.aformat, tvb(at + 3, 1))
  if not width then
    -- Well-formed, and answered by DIAG 1/3: only its length is known.
    if alen < 4 or alen % 4 ~= 0 or alen > room then return nil, "the length of the address segment" end
    return alen, nil, "address format " .. format
  end
  if alen ~= 8 + 2 * width or alen > room then return nil, "the length of the address segment" end
  if have < alen then return nil end
  local dst, src = tvb(at + 4, width), tvb(at + 4 + width, width)
  local dport, sport = tvb(at + 4 + 2 * width, 2), tvb(at + 6 + 2 * width, 2)
  subtree:add(width == 4 and f.dst or f.dst6, dst)
  subtree:add(width == 4 and f.src or f.src6, src)
  subtree:add(f.dstport, dport)
  subtree:add(f.srcport, sport)
  local service = SERVICES[tvb(at + 2, 1):uint()] or "Unknown service"
  return alen, nil, string.format("%s, port %d to %d", service, sport:uint(), dport:uint())
end

local function dissect_data(tvb, tree, at, room, have, options, dlen)
  local used = 0
  if common.has_bit(options, 0) then
    if room < 8 then return nil, "the end inside the beginning tag" end
    if have < 8 then return nil end
    tree:add(f.btag, tvb(at, 8))
    used = 8
  end
  if dlen > room - used then return nil, "dlen beyond the datagram" end
  local kept = math.min(dlen, have - used)
  if kept > 0 then tree:add(f.data, tvb(at + used, kept)) end
  if kept < dlen then return nil end
  return used + dlen
end

local function dissect_control(tvb, tree, at, room, have, dlen)
  if room < CONTROL then return nil, "the end inside the control segment" end
  if dlen ~= 0 then return nil, "dlen in a control packet" end
  if have < CONTROL then return nil end
  local function word(i) return tvb(at + 4 * i, 4) end
  for i, field in ipairs({ f.rate, f.burst, f.echo, f.time, f.techo }) do tree:add(field, word(i - 1)) end
  add_key(tree, XKEY, word(5))
  for i, field in ipairs({ f.xroute, f.alloc, f.rseq, f.hseq, f.nspan, f.reserved32 }) do tree:add(field, word(i + 5)) end
  if word(6):uint() ~= 0 or word(11):uint() ~= 0 then return nil, "a reserved field that is not 0" end
  local rseq, nspan = word(8):uint(), word(10):uint()
  local info = string.format("rseq %d, alloc %d, echo %d", rseq, word(7):uint(), word(2):uint())
  if 8 * nspan ~= room - CONTROL then return nil, "nspan does not agree with the size", info end
  local items, place, edge, fine = {}, at + CONTROL, 0, true
  for _ = 1, nspan do
    if place + 8 - at > have then return nil, nil, info end
    local low, high = tvb(place, 4):uint(), tvb(place + 4, 4):uint()
    local span = tree:add(f.span, tvb(place, 8))
    span:set_text(string.format("Span [%d, %d)", low, high))
    span:add(f.low, tvb(place, 4))
    span:add(f.high, tvb(place + 4, 4))
    -- Numbers compare from rseq on, since they wrap.
    local from, to = (low - rseq) % 2 ^ 32, (high - rseq) % 2 ^ 32
    if fine and (from <= edge or to <= from) then
      fine = false
      span:add_proto_expert_info(experts.bad_spans)
    end
    edge = to
    items[#items + 1] = string.format("[%d,%d)", low, high)
    place = place + 8
  end
  if nspan > 0 then info = info .. ", spans " .. common.join(items) end
  return CONTROL + 8 * nspan, nil, info
end

local function dissect_diag(tvb, tree, at, room, have, dlen)
  if room < 8 then return nil, "the end inside the diagnostic segment" end
  if dlen > room - 8 then return nil, "dlen beyond the datagram" end
  if have < 8 then return nil end
  local code, value = tvb(at, 4):uint(), tvb(at + 4, 4):uint()
  tree:add(f.code, tvb(at, 4))
  tree:add(f.value, tvb(at + 4, 4))
  local info = string.format("%s: %s", CODES[code] or "code " .. code, VALUES[value] or "value " .. value)
  if have - 8 < dlen then return nil, nil, info end
  if dlen > 0 then tree:add(f.text, tvb(at + 8, dlen)) end
  return 8 + dlen, nil, info
end

local function dissect_segment(tvb, tree, kind, options, dlen, room, have)
  if kind == CNTL then return dissect_control(tvb, tree, HEADER, room, have, dlen) end
  if kind == DIAG then return dissect_diag(tvb, tree, HEADER, room, have, dlen) end
  local address, why, info = 0, nil, nil
  if kind == FIRST then
    address, why, info = dissect_address(tvb, tree, HEADER, room, have)
    if not address then return nil, why, info end
  end
  local used
  used, why = dissect_data(tvb, tree, HEADER + address, room - address, have - address, options, dlen)
  return used and address + used, why, info
end

-- What stands behind the header. Returns why it does not parse or nil, whether the capture cut it, and what to say.
local function dissect_body(tvb, tree, size, have)
  local options, kind, dlen = tvb(0, 2):uint(), tvb(3, 1):uint(), tvb(24, 4):uint()
  if size < HEADER + TRAILER then return "shorter than a header and a trailer" end
  local finish = size - TRAILER
  local room = finish - HEADER
  local used, why, info = dissect_segment(tvb, tree, kind, options, dlen, room, math.min(have, finish) - HEADER)
  if have < size then return why, true, info end
  if used then
    local padding = room - used
    if padding > 0 then
      tree:add(f.padding, tvb(HEADER + used, padding))
      if padding ~= -used % 4 or tvb:raw(HEADER + used, padding):find("[^%z]") then why = "padding" end
    elseif used % 4 ~= 0 then
      why = "padding"
    end
  end
  local range = tvb(finish, TRAILER)
  if common.has_bit(options, 14) then
    add_check(tree, f.dcheck, f.dcheck_status, experts.bad_dcheck, range, nil)
  elseif add_check(tree, f.dcheck, f.dcheck_status, experts.bad_dcheck, range, cxor(raw(tvb, HEADER, room))) == common.BAD then
    info = (info and info .. " " or "") .. "[bad dcheck]"
  end
  return why, false, info
end

function xtp.dissector(tvb, pinfo, root)
  pinfo.cols.protocol:set("XTP 3.6")
  local size, have = tvb:reported_len(), tvb:len()
  local tree = raise.unless_headed(xtp, HEADER, tvb, pinfo, root)
  if not tree then return end
  local options, kind, key = tvb(0, 2):uint(), tvb(3, 1):uint(), tvb(4, 4):uint()
  local status = dissect_header(tvb, tree)
  local fault, is_cut, more = fault_of_header(tvb), have < size, nil
  if TYPES[kind] then
    local why
    why, is_cut, more = dissect_body(tvb, tree, size, have)
    fault = fault or why
  end
  local info = string.format("%s key %s0x%08x, seq %d, sync %d, len %d", TYPES[kind] or string.format("Type 0x%02x", kind),
    key >= 2 ^ 31 and "RTN " or "", key % 2 ^ 31, tvb(16, 4):uint(), tvb(12, 4):uint(), tvb(24, 4):uint())
  local names = option_names(options)
  if names ~= "" then info = info .. " [" .. names .. "]" end
  if more then info = info .. ", " .. more end
  if status == common.BAD then info = info .. " [bad hcheck]" end
  pinfo.cols.info:set(info)
  tree:append_text(", " .. info)
  if fault then
    raise.malformed(pinfo, tree, fault)
  elseif is_cut then
    raise.cut(pinfo, tree)
  end
end

-- The header's checksum is enough to know one.
common.on_udp(xtp, function(tvb)
  if tvb:len() < HEADER + TRAILER or fault_of_header(tvb) then return false end
  return tvb(36, 4):uint() == cxor(raw(tvb, 0, 36))
end)
DissectorTable.get("ip.proto"):add_for_decode_as(xtp)
