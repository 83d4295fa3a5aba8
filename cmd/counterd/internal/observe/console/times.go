package console

// MidTime is how mids carry the time at which a post was made. The setting mid-time says it. The page does not guess: a
// number that a clock in microseconds or nanoseconds gave out is also a plausible mid of Weibo or Twitter, of another year.
type MidTime string

// Kinds of mids, with the values of the setting.
const (
	NoTime    MidTime = "none"      // they do not carry time
	Weibo     MidTime = "weibo"     // seconds since weiboEpoch above the low 22 bits
	Snowflake MidTime = "snowflake" // milliseconds since snowflakeEpoch above the low 22 bits
)

const (
	weiboEpoch     = 515483463     // s since 1970
	snowflakeEpoch = 1288834974657 // ms since 1970: Twitter's
)

// of returns when a mid was given out, in ms since 1970; 0 if mids do not carry time.
func (k MidTime) of(mid uint64) int64 {
	switch k {
	case Weibo:
		return int64(mid>>22)*1000 + weiboEpoch*1000
	case Snowflake:
		return int64(mid>>22) + snowflakeEpoch
	}
	return 0
}
